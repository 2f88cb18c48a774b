"""How often Dynamo and AOTAutograd have compiled so far, by torch's own counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tcexplore.capture.hooks import Emit
from tcexplore.events import FactMissing

SYMBOL = "torch._dynamo.utils:counters"
FAMILIES = ("frames", "stats", "aot_autograd")
"""Counters that move when something compiles and stand still when a call finds everything compiled."""


def compile_counter(emit: Emit) -> Callable[[], int]:
    """A function that grows whenever something was compiled; always 0, and said so, where torch has no counters."""
    try:
        from torch._dynamo.utils import counters
    except ImportError as error:
        emit(FactMissing(fact="recompiles while timing", symbol=SYMBOL, reason=f"this torch has none: {error}"))
        return lambda: 0
    families: Mapping[str, Mapping[str, int]] = counters
    return lambda: sum(sum(families[name].values()) for name in FAMILIES if name in families)
