"""The text of the wrapper's calls of extern kernels: known only when the wrapper is written out."""

from __future__ import annotations

from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.kernel_calls import Called

_NO_CALLS = ("MemoryPlanningLine", "FreeLine", "CommentLine", "AssertSizeStrideLine")
"""Lines beside a call: allocation and freeing, comments, checks of the result."""


class ExternCalls:
    """Finds which of the wrapper's lines make the call that is being generated, and keeps their text."""

    def __init__(self) -> None:
        self._current: Called | None = None
        self._first_line = 0

    def install(self, hooks: Hooks) -> None:
        """Watch the scheduler generate extern calls."""
        hooks.watch(
            "extern calls",
            "torch._inductor.scheduler:Scheduler.codegen_extern_call",
            before=self._generation_begins,
            after=self._generated,
        )

    def begin(self, called: Called) -> None:
        """The call being generated is this one."""
        self._current = called

    def _generation_begins(self, *_: Any) -> None:
        from torch._inductor.virtualized import V

        self._current = None
        self._first_line = len(V.graph.wrapper_code.lines)

    def _generated(self, *_: Any) -> None:
        from torch._inductor.virtualized import V

        if self._current is not None:
            for line in V.graph.wrapper_code.lines[self._first_line :]:
                _keep_text(line, self._current.text)
        self._current = None


def _keep_text(line: Any, text: list[str]) -> None:
    """Append the line to `text`, at once or, for a line that is written out later, then."""
    if isinstance(line, str):
        if line.strip() and not line.lstrip().startswith("#"):
            text.append(line.strip())
        return
    if not hasattr(line, "codegen") or any(base.__name__ in _NO_CALLS for base in type(line).__mro__):
        return
    write = line.codegen

    def codegen(code: Any) -> None:
        start = len(code._lines)
        write(code)
        text.extend(str(new).strip() for new in code._lines[start:] if isinstance(new, str))

    line.codegen = codegen
