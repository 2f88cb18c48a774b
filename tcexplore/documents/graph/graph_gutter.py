"""The data flow of a graph, drawn beside its rows: a line runs from each node down to the nodes that read it.

One row of text per node. `○` is a node; a line that a node reads bends into its row (`├` and it goes on below, `╰` and
it ends there) or meets the node from straight above; `┼` and `┴` are the same between two others, and where a line
only passes under a row it stays `│`. A value whose line would be too long for the room that there is has none; its
readers are marked.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

SPARE = 2
"""Columns beyond those of the lines: one for a node without a line, one to keep two such nodes apart."""


class Drawn(NamedTuple):
    """A row of the gutter: its text, where in it the node's glyph stands (-1: no node), and whether a value that the
    row reads has no line to it."""

    text: str
    node: int
    hidden: bool


def draw(inputs: Sequence[Sequence[int] | None], columns: int, glyphs: Sequence[str]) -> list[Drawn]:
    """The gutter of rows that read the rows in `inputs` (None: no node, lines pass), at most `columns` lines wide.

    `glyphs` has the character that stands for each row. The text of a row has one character per column and one
    between each two, and none at the end.
    """
    used = uses([read or () for read in inputs])
    pen = _Pen(extents(used, max(columns - SPARE, 1)), max(columns, SPARE + 1))
    return [pen.row(row, read, glyph) for row, (read, glyph) in enumerate(zip(inputs, glyphs, strict=True))]


class _Pen:
    """Where the lines are from one row to the next: `_lanes` has the value of each column, None where it is free."""

    def __init__(self, ends: list[int], columns: int) -> None:
        self._ends = ends
        self._columns = columns
        self._lanes: list[int | None] = []
        self._column: dict[int, int] = {}
        self._blocked = -1
        """The column of a node right above that has no line: a node below it would look like its reader."""

    def row(self, row: int, read: Sequence[int] | None, glyph: str) -> Drawn:
        if read is None:
            self._blocked = -1
            return Drawn(_plain(self._lanes), -1, False)
        above = [value for value in dict.fromkeys(read) if value in self._column]
        ending = [value for value in above if self._ends[value] == row]
        column = self._place(above, ending)
        text = self._draw(row, column, [self._column[value] for value in above], glyph)
        for value in ending:
            self._lanes[self._column.pop(value)] = None
        self._begin(row, column)
        return Drawn(text, 2 * column, len(above) < len(set(read)))

    def _place(self, above: list[int], ending: list[int]) -> int:
        """A node goes on in the column of the first line that ends in it, else in the free one nearest to its first."""
        if ending:
            return self._column[ending[0]]
        near = self._column[above[0]] + 1 if above else 0
        lanes = [*self._lanes, *[None] * (self._columns - len(self._lanes))]
        free = [c for c, value in enumerate(lanes) if value is None and c != self._blocked]
        return min(free, key=lambda c: (abs(c - near), c < near))

    def _begin(self, row: int, column: int) -> None:
        self._lanes += [None] * (column + 1 - len(self._lanes))
        self._blocked = column
        if self._ends[row] > row:
            self._lanes[column] = row
            self._column[row] = column
            self._blocked = -1
        while self._lanes and self._lanes[-1] is None:
            self._lanes.pop()

    def _draw(self, row: int, column: int, reads: list[int], glyph: str) -> str:
        """The row's text: the lines that pass, and the bends of those that the node reads."""
        cells = list(_plain(self._lanes).ljust(2 * column + 1))
        sides = [c for c in reads if c != column]
        low, high = min([*sides, column]), max([*sides, column])
        for at in range(2 * low, 2 * high + 1):
            if cells[at] == " ":
                cells[at] = "─"
        for c in sides:
            value = self._lanes[c]
            ends = value is not None and self._ends[value] == row
            outer = c in (low, high)
            cells[2 * c] = _BENDS[outer, c < column, ends]
        cells[2 * column] = glyph
        return "".join(cells).rstrip()


_BENDS = {
    (True, True, False): "├",
    (True, True, True): "╰",
    (True, False, False): "┤",
    (True, False, True): "╯",
    (False, True, False): "┼",
    (False, True, True): "┴",
    (False, False, False): "┼",
    (False, False, True): "┴",
}
"""By: is it the outermost line on its side, is it left of the node, does it end here."""


def _plain(lanes: list[int | None]) -> str:
    return " ".join(" " if value is None else "│" for value in lanes)


def uses(inputs: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each row the later rows that read it, in order; `inputs` has the rows that each row reads."""
    readers: list[list[int]] = [[] for _ in inputs]
    for row, read in enumerate(inputs):
        for producer in dict.fromkeys(read):
            if producer < row:
                readers[producer].append(row)
    return readers


def extents(used: Sequence[Sequence[int]], room: int) -> list[int]:
    """The row that each row's line reaches down to (itself: it has none), so that no row has over `room` of them.

    Where there are too many, the one that goes on furthest is cut back to its last use so far.
    """
    ends = [rows[-1] if rows else row for row, rows in enumerate(used)]
    active: list[tuple[int, int]] = []
    passing: set[int] = set()
    leaving: dict[int, list[int]] = {}
    for row, end in enumerate(ends):
        passing.difference_update(leaving.pop(row, ()))
        if end > row:
            heapq.heappush(active, (-end, row))
            passing.add(row)
            leaving.setdefault(end, []).append(row)
        while len(passing) > room:
            _, longest = heapq.heappop(active)
            if longest in passing:
                passing.discard(longest)
                ends[longest] = max((use for use in used[longest] if use <= row), default=longest)
    return ends
