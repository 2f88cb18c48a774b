"""Reductions: their accumulators are declared late, and equal ones are computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lines.current_op import FACT
from tcexplore.capture.inductor.lines.line_marks import CPP, Marks, Ops
from tcexplore.capture.inductor.lines.loop_bodies import current_node, ops_of

_KNOWN = "_tcexplore_reductions"
_KERNELS = ("cpp:CppKernel", "cpp:CppVecKernel", "triton:TritonKernel")


class Reductions:
    """Gives declarations of accumulators their mark, and a reduction that is found again its further ops."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks

    def install(self, hooks: Hooks) -> None:
        """Watch reductions being generated."""
        for kernel in _KERNELS:
            hooks.wrap(FACT, f"torch._inductor.codegen.{kernel}.reduction", self._reducing)

    def _reducing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def reduction(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            ops, first = ops_of(current_node()), self._marks.issued
            declared = len(getattr(kernel, "reduction_prefix_generators", ()))
            result = original(kernel, *args, **kwargs)
            known = vars(kernel).setdefault(_KNOWN, {})
            if self._marks.issued > first:
                known[str(result)] = range(first, self._marks.issued)
            else:
                self._marks.add(known.get(str(result), ()), ops)
            generators = getattr(kernel, "reduction_prefix_generators", [])
            generators[declared:] = [self._declaring(generate, ops) for generate in generators[declared:]]
            return result

        return reduction

    def _declaring(self, generate: Callable[..., Any], ops: Ops) -> Callable[..., Any]:
        def declaration(size: Any = None) -> Any:
            code = generate(size)
            if isinstance(code, str):
                return self._marks.mark(code, ops, CPP)
            return code.map(lambda line: self._marks.mark(line, ops, CPP) if isinstance(line, str) else line)

        return declaration
