"""Constants and index expressions: Inductor keeps them aside while it traces and writes them where they are used.

A constant belongs to the op that made it, not to the one that uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lines.current_op import FACT, Running
from tcexplore.capture.inductor.lines.line_marks import Ops

_OPS = "_tcexplore_ops"


class FoldedValues:
    """Keeps the ops of a symbolic value with it until it becomes a statement."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def install(self, hooks: Hooks) -> None:
        """Watch values being folded, and written out."""
        owner = "torch._inductor.index_propagation:IndexPropagation"
        hooks.wrap(FACT, f"{owner}.propagate_sympy", self._folding)
        hooks.wrap(FACT, f"{owner}.unwrap", self._writing_out)

    def _folding(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def propagate_sympy(handler: Any, name: str, args: Any, kwargs: Any) -> Any:
            result = original(handler, name, args, kwargs)
            if getattr(result, "is_symbolic", False):
                ops: list[str] = list(self._running.ops)
                for value in (*args, *kwargs.values()):
                    ops.extend(getattr(value, _OPS, ()))
                setattr(result, _OPS, tuple(dict.fromkeys(ops)))
            return result

        return propagate_sympy

    def _writing_out(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def unwrap(handler: Any, value: Any) -> Any:
            ops: Ops = getattr(value, _OPS, ())
            return self._running.call(ops, original, handler, value) if ops else original(handler, value)

        return unwrap
