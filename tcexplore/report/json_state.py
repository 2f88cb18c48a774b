"""The names in the state dict as JSON."""

from __future__ import annotations

from typing import Any

from tcexplore import events as ev


def state(keys: ev.StateKeys | None) -> dict[str, Any] | None:
    """The first names of each form; null for a function, or where this torch does not tell."""
    if keys is None:
        return None
    return {
        "names": keys.count,
        "compiled_prefix": keys.prefix,
        "module": list(keys.module),
        "compiled": list(keys.compiled),
        "compiled_in_place": list(keys.in_place),
    }
