"""A table in a pane: a head and rows of styled cells, each column as wide as it needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tcexplore.documents.document import Row, Span
from tcexplore.session.links import Link

Cell = tuple[Span, ...]

GAP = "  "


def columns(
    head: Sequence[str], rows: Sequence[Sequence[Cell]], links: Sequence[tuple[Link, ...]], left: Collection[int] = (0,)
) -> Iterator[Row]:
    """The rows under their head; those of `left` are aligned left. `links` has those of each row."""
    first: list[Cell] = [(Span(title, "muted"),) for title in head]
    cells = [first, *(list(row) for row in rows)]
    widths = [max(_wide(row[index]) for row in cells) for index in range(len(head))]
    for row, own in zip(cells, ((), *links), strict=True):
        spans: list[Span] = [Span(" ")]
        for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = (Span(" " * (width - _wide(cell))),) if width > _wide(cell) else ()
            spans += [*cell, *space] if index in left else [*space, *cell]
            spans.append(Span(GAP))
        yield Row(tuple(spans[:-1]), own)


def _wide(cell: Cell) -> int:
    return sum(len(span.text) for span in cell)
