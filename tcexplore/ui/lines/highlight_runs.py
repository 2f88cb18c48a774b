"""Where what is selected stands in a document: runs of lit rows, and which of them are the first of their chapter."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from tcexplore.documents.document import Chapter

NEAR = 3
"""Rows between two lit ones that still belong to one hit: braces, and a statement or two of another op."""


class Hits(NamedTuple):
    """The first row of each hit, ascending; of the first hit of each chapter; and the chapters."""

    starts: Sequence[int]
    firsts: Sequence[int]
    chapters: Sequence[Chapter]

    def beside(self, row: int, by: int, *, chapter: bool) -> int | None:
        """The hit behind a row (`by` -1: before it), round the end; with `chapter` the first hit of another one."""
        rows = self.firsts if chapter else self.starts
        if not rows:
            return None
        at = bisect_right(rows, row) if by > 0 else bisect_left(rows, row) - 1
        return rows[at % len(rows)]

    def words(self, row: int) -> str:
        """`hit 3/12 in ▐2▌ backward`, for the hit that begins at `row`."""
        at = bisect_right([chapter.row for chapter in self.chapters], row)
        place = f" in {self.chapters[at - 1].title}" if at else ""
        return f"hit {bisect_left(self.starts, row) + 1}/{len(self.starts)}{place}"


def hits(lit: Iterable[int], exact: Collection[int], chapters: Sequence[Chapter]) -> Hits:
    """The hits among the lit rows of a document.

    `exact` are those of them that stand for more than a whole kernel: a kernel that has some is gone to there, and its
    heading passed over. A list of all kernels before the chapters is passed over too, where they have hits.
    """
    begins = [chapter.row for chapter in chapters]
    groups = {at: list(rows) for at, rows in groupby(sorted(lit), key=lambda row: bisect_right(begins, row))}
    if len(groups) > 1 and 0 in groups and not any(row in exact for row in groups[0]):
        del groups[0]
    found = [list(_starts([row for row in rows if row in exact] or rows)) for rows in groups.values()]
    return Hits([start for starts in found for start in starts], [starts[0] for starts in found], chapters)


def _starts(rows: Iterable[int]) -> Iterator[int]:
    """The first row of each run."""
    last = None
    for row in rows:
        if last is None or row - last > NEAR + 1:
            yield row
        last = row
