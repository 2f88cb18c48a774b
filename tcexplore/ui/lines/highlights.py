"""Highlighted rows of a document, grouped into hits: runs of rows that stand for the selection."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from tcexplore.documents.document import Chapter, Document, Link, Row, chapters
from tcexplore.ui.lines.row_scan import RowsByLink, own_links

NEAR = 3
"""Rows between two highlighted ones of the same hit: braces, and a statement or two of another op."""


class Hits(NamedTuple):
    """The hits in a document."""

    starts: Sequence[int]
    """First row of each hit, ascending."""

    firsts: Sequence[int]
    """First row of the first hit of each chapter."""

    chapters: Sequence[Chapter]

    def next(self, row: int, by: int, *, chapter: bool) -> int | None:
        """Return the hit after a row (`by` -1: before it), cyclically; with `chapter` the first hit of another one."""
        rows = self.firsts if chapter else self.starts
        if not rows:
            return None
        at = bisect_right(rows, row) if by > 0 else bisect_left(rows, row) - 1
        return rows[at % len(rows)]

    def label(self, row: int) -> str:
        """Return `hit 3/12 in ▐2▌ backward` for the hit that begins at `row`."""
        at = bisect_right([chapter.row for chapter in self.chapters], row)
        place = f" in {self.chapters[at - 1].title}" if at else ""
        return f"highlight {bisect_left(self.starts, row) + 1}/{len(self.starts)}{place}"


def hits(highlighted: Iterable[int], exact: Collection[int], chapters: Sequence[Chapter]) -> Hits:
    """Group highlighted rows into hits.

    `exact` are the rows that stand for more than a whole kernel: a kernel with such rows has its hits there, not at its
    heading. A list of all kernels before the chapters is skipped if the chapters have hits.
    """
    begins = [chapter.row for chapter in chapters]
    groups = {at: list(rows) for at, rows in groupby(sorted(highlighted), key=lambda row: bisect_right(begins, row))}
    if len(groups) > 1 and 0 in groups and not any(row in exact for row in groups[0]):
        del groups[0]
    starts = [list(_starts([row for row in rows if row in exact] or rows)) for rows in groups.values()]
    return Hits([row for rows in starts for row in rows], [rows[0] for rows in starts], chapters)


def _starts(rows: Iterable[int]) -> Iterator[int]:
    """Yield the first row of each run."""
    last = None
    for row in rows:
        if last is None or row - last > NEAR + 1:
            yield row
        last = row


class Highlights:
    """The rows of one document that stand for the selection, found in slices in a long document."""

    def __init__(self, document: Document, links: frozenset[Link] = frozenset()) -> None:
        self.links = links
        """The selection. Assign another one at any time."""
        self.index = RowsByLink(document)
        self._document = document
        self._hits: tuple[frozenset[Link], Hits] | None = None

    @property
    def exact(self) -> frozenset[Link]:
        """The selection without whole kernels."""
        return frozenset(link for link in self.links if link.kind != "kernel")

    def has(self, row: Row) -> bool:
        """Return whether a row is highlighted."""
        return bool(self.links) and not self.links.isdisjoint(own_links(row))

    def first_of(self, rows: Iterable[int]) -> int | None:
        """Return the first of these rows that is highlighted for more than a whole kernel."""
        exact = self.exact
        return next((row for row in rows if not exact.isdisjoint(own_links(self._document.row(row)))), None)

    def all(self) -> Hits:
        """Return all hits of a document that has been read; cached until the selection changes."""
        if self._hits is None or self._hits[0] != self.links:
            rows, exact = self.index.rows(self.links), self.index.rows(self.exact)
            self._hits = self.links, hits(rows, exact, chapters(self._document))
        return self._hits[1]

    async def first(self) -> int | None:
        """Return the first hit, reading no further than its chapter."""
        links, exact = self.links, self.exact
        begins = chapters(self._document)
        for end in (*(chapter.row for chapter in begins[1:]), len(self._document)):
            await self.index.read(end)
            starts = hits(self.index.rows(links), self.index.rows(exact), begins).starts
            if starts and (self.index.complete or starts[0] >= begins[0].row):
                return starts[0]
        return None
