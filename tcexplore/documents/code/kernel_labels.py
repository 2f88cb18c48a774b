"""The summary row of a kernel, the rows above its source, and its source, each statement with its ops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tcexplore.documents.document import Row, Span
from tcexplore.documents.highlight import highlighted
from tcexplore.documents.labels import Labels, OpLabel, describe_user_op, is_users
from tcexplore.documents.locations import Places
from tcexplore.documents.prose import fold, row, shortened, wrapped
from tcexplore.events import Kernel, KernelLine
from tcexplore.quantities import size
from tcexplore.session.links import Link, aten_link, kernel_link, line_link, statement_link

LONGEST = 20
"""Characters of an op's name in a list of ops."""

LANGUAGES = {"cpp": "C++", "triton": "Triton", "extern": "extern"}


def kernel_links(kernel: Kernel) -> tuple[Link, ...]:
    """Return links to the kernel and its source lines."""
    return (kernel_link(kernel), *(line_link(location) for location in kernel.source_lines))


def kernel_row(kernel: Kernel, known: Labels, where: Places, number: int, width: int) -> Row:
    """Return the row of a kernel in the list of kernels."""
    label = known.kernel[kernel_link(kernel)]
    spans = (
        Span(" "),
        *label.spans,
        Span(" " * (number - len(label.text) + 1)),
        *op_spans(kernel, known, most=2 if width < 60 else 5),
        Span(f"  {format_traffic(kernel)}" if format_traffic(kernel) else "", "muted"),
        Span(f"  {LANGUAGES.get(kernel.language, kernel.language)}", "muted"),
        Span("  yours" if is_users(kernel.user_op) else "", "changed"),
        Span(f"  {format_lines(kernel, where)}", "muted"),
        Span(f"  {kernel.name}", "dim"),
    )
    return Row(spans, kernel_links(kernel), kernel.source_lines[0] if kernel.source_lines else None, copy=kernel.name)


def kernel_heading(kernel: Kernel, known: Labels, where: Places, name: str, opened: bool, width: int) -> Iterator[Row]:
    """Yield the rows above the source of a kernel; the first one is its fold."""
    label = known.kernel[kernel_link(kernel)]
    place = kernel.source_lines[0] if kernel.source_lines else None
    pairs = ((span.text, span.style) for span in label.spans)
    fused = tuple((span.text, span.style) for span in op_spans(kernel, known, most=None))
    closed = () if opened else ((" ", ""), *fused)
    name_of = (f" {kernel.name}", "changed" if is_users(kernel.user_op) else "heading")
    yield fold(name, opened, *pairs, name_of, *closed, indent=0, links=kernel_links(kernel), location=place)
    if not opened:
        return
    verb = "calls " if not kernel.generated else "fuses " if len(known.fused(kernel)) > 1 else "op "
    if fused:
        yield row((f"   {verb}", "muted"), *fused, links=kernel_links(kernel), location=place)
    facts = [describe_origin(kernel, where), f"graph {kernel.graph} {kernel.phase}"]
    facts += [format_lines(kernel, where)] if kernel.source_lines else []
    facts += [format_traffic(kernel)] if format_traffic(kernel) else []
    facts += [f"{kernel.flops / 1e6:,.1f} MFLOP"] if kernel.flops else []
    facts += [f"{len(kernel.calls)} calls"] if len(kernel.calls) > 1 else []
    yield from wrapped(" · ".join(facts), width, "muted", indent=3, links=kernel_links(kernel), location=place)
    unknown = kernel.generated and not kernel.lines and not kernel.user_op
    if unknown and (known.statements_known or label.number == 1):  # once if those of all kernels are
        text = "The ops of single statements are unknown; the whole kernel has one color."
        yield from wrapped(text, width, "warn", indent=3)


def describe_origin(kernel: Kernel, where: Places) -> str:
    """Return the language of a generated kernel, or `your Triton kernel, defined at line 6`."""
    language, user_op = LANGUAGES.get(kernel.language, kernel.language), kernel.user_op
    if user_op is None:
        return language
    if not is_users(user_op):
        return f"{language}, {user_op.kind}"
    place = where.describe(user_op.location) if user_op.location else ""
    return f"{describe_user_op(user_op)}, defined at {place}" if place else describe_user_op(user_op)


def op_spans(kernel: Kernel, known: Labels, most: int | None) -> tuple[Span, ...]:
    """Return the labels of the first `most` ops, and how many more there are."""
    fused = known.fused(kernel)
    shown = fused if most is None else fused[:most]
    short = (replace(label, text=shortened(label.text, LONGEST)) for label in shown)
    spans = [span for label in short for span in (*label.spans, Span(" "))][:-1]
    return (*spans, Span(f" +{len(fused) - len(shown)}", "muted")) if len(fused) > len(shown) else tuple(spans)


def format_traffic(kernel: Kernel) -> str:
    """Return `reads 264 KiB, writes 256 KiB`, empty if unknown."""
    if kernel.bytes_read is None or kernel.bytes_written is None:
        return ""
    return f"reads {size(kernel.bytes_read)}, writes {size(kernel.bytes_written)}"


def format_lines(kernel: Kernel, where: Places) -> str:
    """Return `line 23`, `lines 23, 24, blocks.py:7`."""
    numbers = list(dict.fromkeys(where.abbreviate(location) for location in kernel.source_lines))
    if not numbers:
        return ""
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


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
