"""The nodes of loop bodies: the small FX graphs from which kernels are generated, each node stamped with its op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lines.current_op import FACT, Running
from tcexplore.capture.inductor.lines.line_marks import Ops

_OPS = "tcexplore_ops"
_STORING = "tcexplore_storing"
_STORED_VALUE = {"store": 3, "store_reduction": 3}
"""Position of the value among the arguments: the ops handler, the buffer's name, the index, the value."""


class LoopBodies:
    """Stamps nodes where a loop body is traced, and where a changed one is traced again from an earlier one."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def install(self, hooks: Hooks) -> None:
        """Watch loop-body nodes being made."""
        hooks.wrap(FACT, "torch._inductor.loop_body:LightTracer.create_node", self._stamping)

    def _stamping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def create_node(tracer: Any, *args: Any, **kwargs: Any) -> Any:
            node = original(tracer, *args, **kwargs)
            self._stamp(node, current_node())
            return node

        return create_node

    def _stamp(self, node: Any, retraced: Any) -> None:
        storing = self._running.ops if retraced is None else getattr(retraced, "meta", {}).get(_STORING, ())
        ops = self._running.ops if retraced is None else ops_of(retraced)
        position = _STORED_VALUE.get(node.target) if isinstance(node.target, str) else None
        if position is not None and len(node.args) > position:
            if retraced is None:
                ops = tuple(dict.fromkeys((*ops_of(node.args[position]), *ops)))
            if storing:
                node.meta[_STORING] = storing
        if ops:
            node.meta[_OPS] = ops


def current_node() -> Any:
    """The loop-body node that is being interpreted, to generate code for it or to trace it again; else None."""
    from torch._inductor.virtualized import V

    return getattr(V.interpreter, "current_node", None)


def index_ops_of(node: Any) -> Ops:
    """The ops of what is computed to place a value in memory: not those of the value."""
    storing: Ops = getattr(node, "meta", {}).get(_STORING, ())
    return storing or ops_of(node)


def ops_of(node: Any) -> Ops:
    """The ops of a loop-body node. A conversion that Inductor put in later belongs with the value that it converts."""
    seen = 0
    while seen < 8 and hasattr(node, "meta"):
        ops: Ops = node.meta.get(_OPS, ())
        if ops or node.target != "to_dtype":
            return ops
        node, seen = node.args[1], seen + 1
    return ()
