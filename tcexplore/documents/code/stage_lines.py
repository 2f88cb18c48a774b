"""One stage of a kernel, line by line: each with the line of the kernel's source that it was made from, and its op."""

from __future__ import annotations

from tcexplore.documents.code.kernel_lines import BAR
from tcexplore.documents.document import Row, Span
from tcexplore.documents.labels import Labels, OpLabel
from tcexplore.events import Kernel, Stage
from tcexplore.session.links import Link, aten_link, kernel_link, line_link, statement_link


class StageLines:
    """The rows of a stage. Before its text stand its own line number, the source's (`←12`) and the color of the op."""

    def __init__(self, kernel: Kernel, stage: Stage, known: Labels) -> None:
        self._kernel = kernel
        self._known = known
        self._lines = stage.text.split("\n")
        self._origin = dict(stage.lines)
        self._from = {line.n: line for line in kernel.lines}
        self._number = len(str(len(self._lines)))
        self._wide = len(str(kernel.source.count("\n") + 1)) + 1

    def __len__(self) -> int:
        return len(self._lines)

    def row(self, index: int) -> Row:
        origin = self._origin.get(index + 1)
        from_ = f"←{origin}" if origin else ""
        ops = self._ops(origin)
        line = self._from.get(origin) if origin else None
        spans = (
            Span(f" {index + 1:>{self._number}} ", "dim"),
            Span(f"{from_:>{self._wide}}", "number"),
            Span(BAR if ops else " ", ops[0].style if ops else ""),
            Span(f" {self._lines[index].expandtabs(4)}", "" if origin else "muted"),
        )
        place = line.source[0] if line and line.source else None
        return Row(spans, self._links(origin), place, copy=self._lines[index])

    def _ops(self, origin: int | None) -> tuple[OpLabel, ...]:
        line = self._from.get(origin) if origin else None
        return self._known.ops(self._kernel.graph, self._kernel.phase, line.nodes) if line else ()

    def _links(self, origin: int | None) -> tuple[Link, ...]:
        """A line stands for the statement that it was made from, and so for what that came from."""
        if origin is None:
            return ()
        kernel, line = self._kernel, self._from.get(origin)
        nodes = tuple(aten_link(kernel.graph, kernel.phase, name) for name in line.nodes) if line else ()
        places = tuple(line_link(location) for location in line.source) if line else ()
        return (statement_link(kernel, origin), *nodes, *places, kernel_link(kernel))
