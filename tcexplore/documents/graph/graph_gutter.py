"""The data flow of a graph as a gutter: a line runs from each node down to the nodes that read it.

One row of text per node. `○` is a node. A line that the node reads bends into the row (`├` if it continues, `╰` if it
ends) or meets the node from above; `┼` and `┴` are the same between two other lines; `│` passes the row. If there is
no room for a line, the readers of its value are marked instead.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

SPARE = 2
"""Extra columns: one for a node without a line, one between two such nodes."""


class Drawn(NamedTuple):
    """A row of the gutter: its text, the position of the node's glyph (-1 if none), and whether the row reads a value
    that has no line."""

    text: str
    node: int
    hidden: bool


def draw_gutter(inputs: Sequence[Sequence[int] | None], columns: int, glyphs: Sequence[str]) -> list[Drawn]:
    """Return the gutter, at most `columns` lines wide.

    `inputs` has the rows that each row reads, None for a row without a node; `glyphs` has the character of each row.
    The text of a row has one character per column and one between two columns.
    """
    used = find_readers([read or () for read in inputs])
    pen = _Pen(extents(used, max(columns - SPARE, 1)), max(columns, SPARE + 1))
    return [pen.row(row, read, glyph) for row, (read, glyph) in enumerate(zip(inputs, glyphs, strict=True))]


class _Pen:
    """The columns of the lines between two rows; `_lanes` has the value in each column, None if it is free."""

    def __init__(self, ends: list[int], columns: int) -> None:
        self._ends = ends
        self._columns = columns
        self._lanes: list[int | None] = []
        self._column: dict[int, int] = {}
        self._blocked = -1
        """Return the column of the node above if it has no line: a node below would look like its reader."""

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
        """Return the column of a node: that of the first line that ends in it, or else the nearest free one."""
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
        """Return the text of the row: the lines that pass, and the bends of those that the node reads."""
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
"""Keys: whether the line is the outermost on its side, whether it is left of the node, whether it ends here."""


def _plain(lanes: list[int | None]) -> str:
    return " ".join(" " if value is None else "│" for value in lanes)


def find_readers(inputs: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return for each row the later rows that read it, in order."""
    readers: list[list[int]] = [[] for _ in inputs]
    for row, read in enumerate(inputs):
        for producer in dict.fromkeys(read):
            if producer < row:
                readers[producer].append(row)
    return readers


def extents(used: Sequence[Sequence[int]], room: int) -> list[int]:
    """Return the last row of each row's line, the row itself if it has none, with at most `room` lines in each row.

    If there are too many, the longest line ends at its last use so far.
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
