"""Helper functions of Triton kernels (how a scan combines two values): written apart, and shared by equal text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lines.current_op import FACT
from tcexplore.capture.inductor.lines.line_marks import TRITON, Marks, Ops
from tcexplore.capture.inductor.lines.loop_bodies import current_node, ops_of

_OPS = "_tcexplore_ops"


class HelperFunctions:
    """Marks the lines of a helper when they go into the kernel; its text is compared before that."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks

    def install(self, hooks: Hooks) -> None:
        """Watch helpers being added, and written out."""
        owner = "torch._inductor.codegen.triton:HelperFunctions"
        hooks.wrap(FACT, f"{owner}.add", self._adding)
        hooks.wrap(FACT, f"{owner}.__iter__", self._writing_out)

    def _adding(self, original: Callable[..., str]) -> Callable[..., str]:
        def add(helpers: Any, *args: Any, **kwargs: Any) -> str:
            name = original(helpers, *args, **kwargs)
            ops = vars(helpers).setdefault(_OPS, {})
            ops[name] = (*ops.get(name, ()), *ops_of(current_node()))
            return name

        return add

    def _writing_out(self, original: Callable[..., Iterator[str]]) -> Callable[..., Iterator[str]]:
        def iterate(helpers: Any) -> Iterator[str]:
            ops: dict[str, Ops] = getattr(helpers, _OPS, {})
            for text in original(helpers):
                known = next((of for name, of in ops.items() if f"def {name}(" in text), ())
                yield "\n".join(self._marked(line, known) for line in text.split("\n"))

        return iterate

    def _marked(self, line: str, ops: Ops) -> str:
        return self._marks.mark(line, ops, TRITON) if line.startswith(" ") else line
