"""A row that drops its least important pieces to fit a width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

from tcexplore.documents.document import Row, Span
from tcexplore.documents.prose import shortened


class Piece(NamedTuple):
    """Spans that are shown together or dropped; a higher `rank` is dropped earlier."""

    spans: tuple[Span, ...]
    rank: int = 0

    @property
    def width(self) -> int:
        return sum(cell_len(span.text) for span in self.spans)


def piece(text: str, style: str = "", rank: int = 0) -> Piece:
    """Return a piece of one span."""
    return Piece((Span(text, style),), rank)


def fits(pieces: Sequence[Piece], width: int, gap: str = "  ") -> bool:
    """Return whether all pieces fit side by side."""
    return _wide([item for item in pieces if item.width], gap) <= width


def fitted(left: Sequence[Piece], width: int, right: Sequence[Piece] = (), gap: str = "  ") -> Row:
    """Return the pieces side by side, `right` at the right edge, without those that do not fit.

    If not even the pieces of rank 0 fit, the end of the row is cut.
    """
    pieces = [item for item in (*left, *right) if item.width]
    ranks = sorted({item.rank for item in pieces if item.rank}, reverse=True)
    for rank in ranks:
        if _wide(pieces, gap) <= width:
            break
        pieces = _without(pieces, rank, width, gap)
    shown = {id(item) for item in pieces}
    first = _joined([item for item in left if id(item) in shown], gap)
    last = _joined([item for item in right if id(item) in shown], gap)
    room = width - sum(cell_len(span.text) for span in (*first, *last))
    return Row(_cut((*first, *((Span(" " * max(room, 1)), *last) if last else ())), width))


def _without(pieces: list[Piece], rank: int, width: int, gap: str) -> list[Piece]:
    """Return the pieces without as many of this rank as necessary, the last ones first."""
    remaining = list(pieces)
    for item in reversed(pieces):
        if item.rank == rank and _wide(remaining, gap) > width:
            remaining = [other for other in remaining if other is not item]
    return remaining


def _wide(pieces: Sequence[Piece], gap: str) -> int:
    return sum(item.width for item in pieces) + len(gap) * max(len(pieces) - 1, 0)


def _joined(pieces: Sequence[Piece], gap: str) -> tuple[Span, ...]:
    spans = [span for item in pieces for span in (Span(gap), *item.spans)]
    return tuple(spans[1:])


def _cut(spans: Sequence[Span], width: int) -> tuple[Span, ...]:
    cut: list[Span] = []
    for span in spans:
        text = shortened(span.text, width)
        width -= cell_len(text)
        cut += [Span(text, span.style)] if text else []
    return tuple(cut)
