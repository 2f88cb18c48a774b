"""Tables: a head and rows of styled cells, each column as wide as its widest cell.

`rich.cells` is the only part of Rich in documents: it measures wide and combining characters as a terminal draws them,
and loads nothing else of Rich.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rich.cells import cell_len

from tcexplore.documents.document import Row, Span
from tcexplore.session.links import Link

Cell = tuple[Span, ...]

GAP = "  "


def columns(
    head: Sequence[str], rows: Sequence[Sequence[Cell]], links: Sequence[tuple[Link, ...]], left: Collection[int] = (0,)
) -> Iterator[Row]:
    """Yield the head and the rows with their `links`; the columns in `left` are left-aligned, the others right."""
    titles: list[Cell] = [(Span(title, "muted"),) for title in head]
    lines = [titles, *(list(row) for row in rows)]
    widths = [max(_width(line[index]) for line in lines) for index in range(len(head))]
    for line, own in zip(lines, ((), *links), strict=True):
        spans: list[Span] = [Span(" ")]
        for index, (cell, width) in enumerate(zip(line, widths, strict=True)):
            padding = (Span(" " * (width - _width(cell))),) if width > _width(cell) else ()
            spans += [*cell, *padding] if index in left else [*padding, *cell]
            spans.append(Span(GAP))
        yield Row(tuple(spans[:-1]), own, no_wrap=True)


def _width(cell: Cell) -> int:
    return sum(cell_len(span.text) for span in cell)
