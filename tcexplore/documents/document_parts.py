"""Documents put together from parts, each a number of rows and the way to build one of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tcexplore.documents.document import Chapter, Row, Span


@dataclass(frozen=True, slots=True)
class Part:
    """`count` rows that `build` makes when they are asked for, by their index in the part.

    `chapter` is the title of the chapter that begins with this part, empty where none does.
    """

    count: int
    build: Callable[[int], Row]
    chapter: str = ""


def fixed(rows: Iterable[Row], chapter: str = "") -> Part:
    """Rows that are few enough to be there from the start."""
    kept: Sequence[Row] = tuple(rows)
    return Part(len(kept), kept.__getitem__, chapter)


class Parts:
    """A document of parts, one below the other. `start` is the row to open it at."""

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
        """The row at `index`. Raises IndexError outside the document."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        at = bisect_right(self._ends, index)
        part = self._parts[at]
        return part.build(index - self._ends[at] + part.count)


@dataclass(frozen=True, slots=True)
class StaticDocument:
    """Rows as given."""

    title: str
    rows: tuple[Row, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, index: int) -> Row:
        return self.rows[index]


def message(*lines: str, style: str = "muted") -> StaticDocument:
    """Lines of prose, for a pane that has nothing else to show."""
    return StaticDocument("", tuple(Row((Span(f" {line}", style),)) for line in lines))
