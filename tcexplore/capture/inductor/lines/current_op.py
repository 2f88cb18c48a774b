"""The op whose code runs: an IR node's `inner_fn` computes values for the FX node that it was lowered from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lines.line_marks import FACT, Ops

_OPS = "_tcexplore_ops"
_STORES = ("store_output", "store_reduction")


class CurrentOp:
    """Stack of ops, one entry per running `inner_fn`; nested loaders are on top."""

    def __init__(self) -> None:
        self._stack: list[Ops] = []

    @property
    def ops(self) -> Ops:
        """The innermost ops, empty outside the evaluation of an IR node."""
        return self._stack[-1] if self._stack else ()

    def call(self, ops: Ops, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `function` as part of `ops`."""
        self._stack.append(ops)
        try:
            return function(*args, **kwargs)
        finally:
            self._stack.pop()

    def install(self, hooks: Hooks) -> None:
        """Record the op of each IR loop when it is created, and run the loop's code as that op's."""
        from torch._inductor import ir

        hooks.wrap(FACT, "torch._inductor.ir:IRNode.__post_init__", self._creating)
        for name, loops in vars(ir).items():
            if isinstance(loops, type) and issubclass(loops, ir.Loops):
                for method in _STORES:
                    if method in vars(loops):
                        hooks.wrap(FACT, f"torch._inductor.ir:{name}.{method}", self._storing)

    def _creating(self, original: Callable[..., None]) -> Callable[..., None]:
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
        """Wrap a function to run as `ops`, unless another IR node has wrapped it already."""
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


class SymbolicValues:
    """Ops of constants and index expressions, which Inductor folds and writes only where they are used.

    A constant belongs to the op that creates it, not to one that uses it.
    """

    def __init__(self, current: CurrentOp) -> None:
        self._current = current

    def install(self, hooks: Hooks) -> None:
        """Watch symbolic values being folded and written."""
        owner = "torch._inductor.index_propagation:IndexPropagation"
        hooks.wrap(FACT, f"{owner}.propagate_sympy", self._folding)
        hooks.wrap(FACT, f"{owner}.unwrap", self._writing)

    def _folding(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def propagate_sympy(handler: Any, name: str, args: Any, kwargs: Any) -> Any:
            result = original(handler, name, args, kwargs)
            if getattr(result, "is_symbolic", False):
                ops: list[str] = list(self._current.ops)
                for value in (*args, *kwargs.values()):
                    ops.extend(getattr(value, _OPS, ()))
                setattr(result, _OPS, tuple(dict.fromkeys(ops)))
            return result

        return propagate_sympy

    def _writing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def unwrap(handler: Any, value: Any) -> Any:
            ops: Ops = getattr(value, _OPS, ())
            return self._current.call(ops, original, handler, value) if ops else original(handler, value)

        return unwrap
