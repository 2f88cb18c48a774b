"""Going through the rows of a long document without anybody noticing: in slices shorter than a frame."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from time import perf_counter

from tcexplore.documents.document import Document, Link, Row

SLICE, REST = 0.004, 0.004
"""Seconds that one slice takes, and that belong to keys after it: one key takes several turns of the event loop."""


async def scan(document: Document, order: Iterable[int], visit: Callable[[int, Row], bool]) -> None:
    """Show `visit` each row in this order, until it returns True."""
    until = perf_counter() + SLICE
    for index in order:
        if visit(index, document.row(index)):
            return
        if perf_counter() >= until:
            await asyncio.sleep(REST)
            until = perf_counter() + SLICE


class LinkIndex:
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
        """Every row read so far that stands for one of the links."""
        return {row for link in links for row in self._rows.get(link, ())}

    async def read(self, end: int | None = None) -> None:
        """Read on to the row `end`, or all rows."""
        await scan(self._document, range(self._read, len(self._document) if end is None else end), self._add)

    def _add(self, index: int, row: Row) -> bool:
        if index == self._read:  # another reader may have been there meanwhile
            self._read += 1
            for link in own_links(row):
                self._rows.setdefault(link, []).append(index)
        return False


def own_links(row: Row) -> tuple[Link, ...]:
    """What the row itself is, without the other things that it leads to: its links of the first one's kind."""
    links = row.links
    return tuple(link for link in links if link.kind == links[0].kind) if len(links) > 1 else links
