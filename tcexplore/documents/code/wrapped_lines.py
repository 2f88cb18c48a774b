"""Lines of generated code that go on below where the view is too narrow for them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from rich.cells import cell_len

from tcexplore.documents.document import Row, Span
from tcexplore.documents.labels import KernelLines

WRAPPED_FROM = 70
"""Columns from which lines go on below. In a narrower view, they would fall into pieces of a few words."""

INDENT = 4
"""Columns by which the rest of a line is indented more than its start."""

LEAST_ROOM = 24
"""Columns that the rest of a line has at least, however deeply it is indented."""

_BREAKS = re.compile(r"[ ,(]+")
"""Text after which a line may be divided."""


class WrappedLines:
    """The rows of a kernel's source: one for each line, and more for a line that is too wide."""

    def __init__(self, lines: KernelLines, width: int) -> None:
        self._lines = lines
        self._width = width
        self._ends = list(accumulate(len(self._cuts(index)) + 1 for index in range(len(lines))))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def row(self, index: int) -> Row:
        """Return the row at `index`."""
        line = bisect_right(self._ends, index)
        part = index - (self._ends[line - 1] if line else 0)
        cuts, row = self._cuts(line), self._lines.row(line)
        if not cuts:
            return row
        code = self._lines.code(line)
        places = [0, *cuts, sum(len(span.text) for span in code)]
        spans = tuple(_slice(code, places[part], places[part + 1]))
        lead = row.spans[: len(row.spans) - len(code)]
        if part:
            lead = (Span(" " * (self._lines.lead + self._indent(line))),)
        return row._replace(spans=(*lead, *spans), continued=part > 0)

    def _indent(self, line: int) -> int:
        text = "".join(span.text for span in self._lines.code(line))
        indent = len(text) - len(text.lstrip(" ")) + INDENT
        return max(0, min(indent, self._width - self._lines.lead - LEAST_ROOM))

    def _cuts(self, line: int) -> list[int]:
        """Return the characters of the code at which the rows below its first one begin."""
        room = self._width - self._lines.lead
        if self._width < WRAPPED_FROM or len(self._lines.text(line)) <= room:
            return []
        text = "".join(span.text for span in self._lines.code(line))
        return list(_divide(text, room, room - self._indent(line)))


def _divide(text: str, room: int, rest: int) -> Iterator[int]:
    """Yield where to divide a text: the first part has `room` columns, each other one `rest`."""
    places = [match.end() for match in _BREAKS.finditer(text)]
    start = len(text) - len(text.lstrip(" "))
    begin = 0
    while cell_len(text[begin:]) > room:
        last = max((place for place in places if start < place and place - begin <= room), default=0)
        begin = last if last > begin else begin + room
        yield begin
        start, room = begin, rest


def _slice(spans: tuple[Span, ...], start: int, end: int) -> Iterator[Span]:
    """Yield the spans between two characters."""
    at = 0
    for text, style in spans:
        part = text[max(0, start - at) : max(0, end - at)]
        if part:
            yield Span(part, style)
        at += len(text)
