"""Where the cursor goes when a document is replaced by its next version."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.document import Document, Row
from tcexplore.ui.lines.row_scan import own_links

_FAR = 1000
"""Rows looked at on each side; what moved further than that is not found again."""


def same_row(old: Document, cursor: int, new: Document) -> int:
    """The row of `new` that stands for what row `cursor` of `old` stood for; the same place where there is none."""
    if not len(new) or not len(old):
        return 0
    place = min(cursor, len(new) - 1)
    wanted = _identity(old.row(min(cursor, len(old) - 1)))
    if not any(wanted):
        return place
    return next((i for i in _outwards(place, len(new)) if _identity(new.row(i)) == wanted), place)


def _identity(row: Row) -> tuple[object, ...]:
    return own_links(row), row.fold


def _outwards(start: int, length: int) -> Iterator[int]:
    yield start
    for distance in range(1, _FAR):
        if start - distance >= 0:
            yield start - distance
        if start + distance < length:
            yield start + distance
