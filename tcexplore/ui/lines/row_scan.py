"""Finding rows: reading a long document in slices shorter than a frame, an index of its links, a row's next version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter

from tcexplore.documents.document import Document, Link, Row

SLICE, REST = 0.004, 0.004
"""Seconds of one slice, and of the rest after it: one key takes several turns of the event loop."""

_FARTHEST = 1000
"""Rows searched on each side for a row that moved."""


async def scan(document: Document, order: Iterable[int], visit: Callable[[int, Row], bool]) -> None:
    """Call `visit` with each row in this order, until it returns True."""
    until = perf_counter() + SLICE
    for index in order:
        if visit(index, document.row(index)):
            return
        if perf_counter() >= until:
            await asyncio.sleep(REST)
            until = perf_counter() + SLICE


class RowsByLink:
    """The rows of each link of a document, as far as it has been read."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._rows: dict[Link, list[int]] = {}
        self._read = 0

    @property
    def complete(self) -> bool:
        """Whether all rows have been read."""
        return self._read >= len(self._document)

    def rows(self, links: Iterable[Link]) -> set[int]:
        """Return every row read so far that stands for one of the links."""
        return {row for link in links for row in self._rows.get(link, ())}

    async def read(self, end: int | None = None) -> None:
        """Read up to the row `end`, or all rows."""
        await scan(self._document, range(self._read, len(self._document) if end is None else end), self._add)

    def _add(self, index: int, row: Row) -> bool:
        if index == self._read:  # another reader may have added it in the meantime
            self._read += 1
            for link in own_links(row):
                self._rows.setdefault(link, []).append(index)
        return False


def own_links(row: Row) -> tuple[Link, ...]:
    """Return the links that the row itself stands for, those of the first link's kind, or those that it hides."""
    return _named_links(row) or row.hides


def _named_links(row: Row) -> tuple[Link, ...]:
    links = row.links
    return tuple(link for link in links if link.kind == links[0].kind) if len(links) > 1 else links


def same_row(old: Document, cursor: int, new: Document) -> int:
    """Return the row of `new` that stands for the same as row `cursor` of `old`, else the row at the same place."""
    if not len(new) or not len(old):
        return 0
    place = min(cursor, len(new) - 1)
    wanted = _identity(old.row(min(cursor, len(old) - 1)))
    if not any(wanted):
        return place
    return next((i for i in _outwards(place, len(new)) if _identity(new.row(i)) == wanted), place)


def _identity(row: Row) -> tuple[object, ...]:
    return _named_links(row), row.fold


def _outwards(start: int, length: int) -> Iterator[int]:
    yield start
    for distance in range(1, _FARTHEST):
        if start - distance >= 0:
            yield start - distance
        if start + distance < length:
            yield start + distance
