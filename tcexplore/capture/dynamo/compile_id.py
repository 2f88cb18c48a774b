"""The compile id (`0/0`) that torch is working on right now."""

from __future__ import annotations

from torch._guards import CompileContext


def current_compile_id() -> str | None:
    """torch's own id of the frame being compiled: frame, then how often it was compiled; None outside a compile."""
    found = CompileContext.current_compile_id()
    return None if found is None else str(found)
