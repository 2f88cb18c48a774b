"""Ops of loop-body nodes: each node of the FX graphs from which Inductor generates kernels records its op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lines.current_op import CurrentOp
from tcexplore.capture.inductor.lines.line_marks import FACT, Ops

_OPS = "tcexplore_ops"
_STORE_OPS = "tcexplore_store_ops"
_STORED_VALUE = {"store": 3, "store_reduction": 3}
"""Index of the stored value among the arguments: ops handler, buffer name, index, value."""

_MAX_CONVERSIONS = 8


class LoopBodies:
    """Recorder of a node's ops when a loop body is traced, including retraces of an earlier body."""

    def __init__(self, current: CurrentOp) -> None:
        self._current = current

    def install(self, hooks: Hooks) -> None:
        """Watch the creation of loop-body nodes."""
        hooks.wrap(FACT, "torch._inductor.loop_body:LightTracer.create_node", self._creating)

    def _creating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def create_node(tracer: Any, *args: Any, **kwargs: Any) -> Any:
            node = original(tracer, *args, **kwargs)
            self._record(node, current_node())
            return node

        return create_node

    def _record(self, node: Any, earlier: Any) -> None:
        """Record the ops of a new node; `earlier` is the node that is retraced, if any."""
        store_ops = self._current.ops if earlier is None else getattr(earlier, "meta", {}).get(_STORE_OPS, ())
        ops = self._current.ops if earlier is None else ops_of(earlier)
        index = _STORED_VALUE.get(node.target) if isinstance(node.target, str) else None
        if index is not None and len(node.args) > index:
            if earlier is None:
                ops = tuple(dict.fromkeys((*ops_of(node.args[index]), *ops)))
            if store_ops:
                node.meta[_STORE_OPS] = store_ops
        if ops:
            node.meta[_OPS] = ops


def current_node() -> Any:
    """Return the loop-body node that is being interpreted, to generate code or to retrace it, else None."""
    from torch._inductor.virtualized import V

    return getattr(V.interpreter, "current_node", None)


def index_ops_of(node: Any) -> Ops:
    """Return the ops of the expressions that compute a node's memory index, not its value."""
    store_ops: Ops = getattr(node, "meta", {}).get(_STORE_OPS, ())
    return store_ops or ops_of(node)


def ops_of(node: Any) -> Ops:
    """Return the ops of a loop-body node; a conversion that Inductor inserts belongs to the value that it converts."""
    for _ in range(_MAX_CONVERSIONS):
        if not hasattr(node, "meta"):
            return ()
        ops: Ops = node.meta.get(_OPS, ())
        if ops or node.target != "to_dtype":
            return ops
        node = node.args[1]
    return ()
