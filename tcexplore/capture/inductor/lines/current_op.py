"""Which op's code is running: an IR node's `inner_fn` computes values for the FX node it was lowered from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lines.line_marks import Ops

FACT = "statement provenance"
_OPS = "_tcexplore_ops"
_STORES = ("store_output", "store_reduction")


class Running:
    """A stack of ops, one entry for each `inner_fn` under way; nested loaders put theirs on top."""

    def __init__(self) -> None:
        self._stack: list[Ops] = []

    @property
    def ops(self) -> Ops:
        """The innermost ones; empty when no IR node is being evaluated."""
        return self._stack[-1] if self._stack else ()

    def call(self, ops: Ops, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `function` as part of `ops`."""
        self._stack.append(ops)
        try:
            return function(*args, **kwargs)
        finally:
            self._stack.pop()

    def install(self, hooks: Hooks) -> None:
        """Note the op of each IR loop when it is made, and let its code run as that op's."""
        from torch._inductor import ir

        hooks.wrap(FACT, "torch._inductor.ir:IRNode.__post_init__", self._noting)
        for name, loops in vars(ir).items():
            if isinstance(loops, type) and issubclass(loops, ir.Loops):
                for method in _STORES:
                    if method in vars(loops):
                        hooks.wrap(FACT, f"torch._inductor.ir:{name}.{method}", self._storing)

    def _noting(self, original: Callable[..., None]) -> Callable[..., None]:
        from torch._inductor.ir import Loops
        from torch._inductor.virtualized import V

        def post_init(node: Any) -> None:
            original(node)
            if isinstance(node, Loops):
                lowered = getattr(V.graph, "current_node", None)
                if lowered is not None:
                    self._attribute(node, (lowered.name,))

        return post_init

    def _attribute(self, loops: Any, ops: Ops) -> None:
        object.__setattr__(loops, _OPS, ops)
        object.__setattr__(loops, "inner_fn", self._as_part_of(ops, loops.inner_fn))
        if hasattr(loops, "inner_fns"):
            object.__setattr__(loops, "inner_fns", tuple(self._as_part_of(ops, fn) for fn in loops.inner_fns))

    def _as_part_of(self, ops: Ops, inner_fn: Callable[..., Any]) -> Callable[..., Any]:
        """The function, running as `ops`; one that another op's node already runs as its own stays that op's."""
        if hasattr(inner_fn, _OPS):
            return inner_fn

        def attributed(*args: Any, **kwargs: Any) -> Any:
            return self.call(ops, inner_fn, *args, **kwargs)

        setattr(attributed, _OPS, ops)
        return attributed

    def _storing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def store(loops: Any, *args: Any, **kwargs: Any) -> Any:
            return self.call(getattr(loops, _OPS, ()), original, loops, *args, **kwargs)

        return store
