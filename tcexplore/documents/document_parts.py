"""Documents made of parts that build their rows on demand, and documents of a few given rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tcexplore.documents.document import Chapter, Row, Span


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that are built on demand."""

    count: int
    build: Callable[[int], Row]
    """Returns the row at an index of the part."""
    chapter: str = ""
    """Title of the chapter that begins with this part, if one does."""


def fixed(rows: Iterable[Row], chapter: str = "") -> Part:
    """Return a part of given rows."""
    built: Sequence[Row] = tuple(rows)
    return Part(len(built), built.__getitem__, chapter)


class Parts:
    """A document of parts, one below the other. A pane opens it at the row `start`."""

    def __init__(self, title: str, parts: Iterable[Part], start: int = 0) -> None:
        self.title = title
        self.start = start
        self._parts = [part for part in parts if part.count]
        self._ends = list(accumulate(part.count for part in self._parts))
        begins = zip(self._parts, (0, *self._ends), strict=False)
        self.chapters = tuple(Chapter(row, part.chapter) for part, row in begins if part.chapter)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def row(self, index: int) -> Row:
        """Return the row at `index`. Raises IndexError outside the document."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        at = bisect_right(self._ends, index)
        part = self._parts[at]
        return part.build(index - self._ends[at] + part.count)


@dataclass(frozen=True, slots=True)
class StaticDocument:
    """A document of given rows."""

    title: str
    rows: tuple[Row, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, index: int) -> Row:
        return self.rows[index]


def message(*lines: str, style: str = "muted") -> StaticDocument:
    """Return a document of a few lines of text."""
    return StaticDocument("", tuple(Row((Span(f" {line}", style),)) for line in lines))
