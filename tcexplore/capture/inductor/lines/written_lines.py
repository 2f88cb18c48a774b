"""Lines of code as they are written: each one gets the mark of the op that it is written for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lines.current_op import FACT
from tcexplore.capture.inductor.lines.line_marks import CPP, TRITON, Marks, Ops
from tcexplore.capture.inductor.lines.loop_bodies import index_ops_of, ops_of

_MARKS = "_tcexplore_marks"


class Writing:
    """Marks what goes into a kernel's own buffers.

    Not what goes into others: their text may be compared or used as a key before it reaches a kernel.
    """

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._forms: dict[type, str | None] = {}
        self._headers = 0
        self._expressions = 0

    def install(self, hooks: Hooks) -> None:
        """Watch lines being written and common subexpressions being found again."""
        hooks.wrap(FACT, "torch._inductor.utils:IndentedBuffer.writeline", self._marking)
        hooks.wrap(FACT, "torch._inductor.codegen.common:CSE.generate", self._sharing)
        hooks.wrap(FACT, "torch._inductor.codegen.simd:IterationRangesEntry._codegen", self._in_header)

    def form(self, kernel: Any) -> str | None:
        """How a mark looks in the language of a kernel; None for a backend that hands its text over elsewhere."""
        cls = type(kernel)
        if cls not in self._forms:
            bases = {base.__name__ for base in cls.__mro__}
            self._forms[cls] = CPP if "CppKernel" in bases else TRITON if "TritonKernel" in bases else None
        return self._forms[cls]

    def _marking(self, original: Callable[..., None]) -> Callable[..., None]:
        from torch._inductor.virtualized import V

        def writeline(buffer: Any, line: Any) -> None:
            node = getattr(V.interpreter, "current_node", None)
            if node is not None and not self._headers:
                line = self._marked(V.kernel, buffer, line, index_ops_of(node) if self._expressions else ops_of(node))
            original(buffer, line)

        return writeline

    def _marked(self, kernel: Any, buffer: Any, line: Any, ops: Ops) -> Any:
        form = self.form(kernel)
        if not ops or form is None or not _owns(kernel, buffer):
            return line
        if isinstance(line, str):
            return self._marks.mark(line, ops, form)
        if hasattr(line, "_new_line"):
            return line._new_line(self._marks.mark(line.line, ops, form))
        return line

    def _sharing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        from torch._inductor.virtualized import V

        def generate(cse: Any, buffer: Any, expr: Any, *args: Any, **kwargs: Any) -> Any:
            node = getattr(V.interpreter, "current_node", None)
            if node is None:
                return original(cse, buffer, expr, *args, **kwargs)
            first = self._marks.issued
            self._expressions += 1
            try:
                variable = original(cse, buffer, expr, *args, **kwargs)
            finally:
                self._expressions -= 1
            self.share(variable, first, index_ops_of(node), found_again=variable is not expr)
            return variable

        return generate

    def share(self, variable: Any, first: int, ops: Ops, *, found_again: bool = True) -> None:
        """`variable` was computed by the marks from `first` on, or is one from before that `ops` now use as well."""
        if self._marks.issued > first:
            setattr(variable, _MARKS, range(first, self._marks.issued))
        elif found_again:
            self._marks.add(getattr(variable, _MARKS, ()), ops)

    def _in_header(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Iteration variables are defined when an op first needs them, but are no op's."""

        def codegen(entry: Any) -> Any:
            self._headers += 1
            try:
                return original(entry)
            finally:
                self._headers -= 1

        return codegen


def _owns(kernel: Any, buffer: Any) -> bool:
    for value in vars(kernel).values():  # noqa: SIM110 - thousands of times in a compile
        if value is buffer:
            return True
    return False
