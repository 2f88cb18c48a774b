"""The source of a kernel, each statement with its ops."""

from __future__ import annotations

from tcexplore.documents.document import Row, Span
from tcexplore.documents.highlight import highlighted
from tcexplore.documents.labels import Labels, OpLabel
from tcexplore.documents.prose import shortened
from tcexplore.events import Kernel, KernelLine
from tcexplore.session.links import Link, aten_link, kernel_link, line_link, statement_link

WIDEST = 9
"""Maximum width of the label of a statement."""

BAR = "▌"

_LANGUAGES = {"cpp": "cpp", "triton": "python", "extern": "python"}


class KernelLines:
    """The rows of the source of one kernel.

    Labels come before the statements, so that a narrow pane shows them. C++ has half of its indentation, because
    Inductor nests deeply; copying gives the original line.
    """

    def __init__(self, kernel: Kernel, known: Labels) -> None:
        self._kernel = kernel
        self._known = known
        self._own = known.kernel[kernel_link(kernel)]
        self._text = highlighted(kernel.source, _LANGUAGES.get(kernel.language, "python"))
        self._from = {line.n: line for line in kernel.lines}
        self._number = len(str(len(self._text.lines)))
        fused = known.fused(kernel)
        several = kernel.lines and len(fused) > 1
        self._wide = min(max((len(label.text) for label in fused), default=0), WIDEST) if several else 0

    def __len__(self) -> int:
        return len(self._text.lines)

    def row(self, index: int) -> Row:
        line = self._from.get(index + 1)
        ops = self._known.ops(self._kernel, line.nodes) if line else ()
        spans = (Span(f" {index + 1:>{self._number}} ", "dim"), *self._label(index, line, ops), *self._code(index))
        place = line.source[0] if line and line.source else None
        return Row(spans, self._links(line), place, copy=self._text.lines[index])

    def _label(self, index: int, line: KernelLine | None, ops: tuple[OpLabel, ...]) -> tuple[Span, ...]:
        """Return the ops of a statement as bars and a label in their colors."""
        if not self._kernel.lines:
            return Span(BAR, self._own.style), Span(" ")
        if line is None or not ops:
            return (Span(" " * (self._wide + 3)),) if self._wide else (Span("  "),)
        bars = tuple(Span(BAR, label.style) for label in ops[:2])
        if not self._wide:
            return (*bars[:1], Span(" "))
        text = shortened("+".join(label.text for label in ops), self._wide)
        again = index and self._ops(index) == ops
        style = ops[0].style if again else ops[0].label_style
        return (*bars, Span(text, style), Span(" " * (self._wide - len(text) + 3 - len(bars))))

    def _ops(self, n: int) -> tuple[OpLabel, ...]:
        line = self._from.get(n)
        return self._known.ops(self._kernel, line.nodes) if line else ()

    def _code(self, index: int) -> tuple[Span, ...]:
        spans = self._text.raw(index)
        if self._kernel.language != "cpp" or not spans:
            return spans
        line = self._text.lines[index]
        indent = len(line) - len(line.lstrip(" "))
        first = spans[0]
        cut = min(indent // 2, len(first.text) - len(first.text.lstrip(" ")))
        return (Span(first.text[cut:], first.style), *spans[1:])

    def _links(self, line: KernelLine | None) -> tuple[Link, ...]:
        """Return links to the post-grad nodes of a statement, or to its kernel if they are unknown."""
        kernel = self._kernel
        if line is None:
            return () if kernel.lines else (kernel_link(kernel),)
        nodes = (aten_link(kernel.graph, kernel.phase, name) for name in line.nodes)
        places = (line_link(location) for location in line.source)
        return (*nodes, *places, kernel_link(kernel), statement_link(kernel, line.n))
