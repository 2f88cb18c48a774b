"""Finding rows of a document: by their links, by the selection, and by text, in slices shorter than a frame."""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from time import perf_counter
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from tcexplore.documents.document import Chapter, Document, Link, Row, chapters

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
    """Return the links that the row itself stands for: those that it hides, or those of the first link's kind."""
    return row.hides or _named_links(row)


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


# ---- highlights: runs of rows that stand for the selection


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


# ---- text search


_PROGRESS_EVERY = 2000
"""Rows between two progress reports."""


@dataclass(frozen=True)
class Query:
    """A text to search for; the case matters only if it has a capital letter."""

    text: str

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(re.escape(self.text), re.IGNORECASE if self.text == self.text.lower() else 0)

    def hits(self, text: str) -> bool:
        """Return whether the text has a match."""
        return self._pattern.search(text) is not None

    def places(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of each match in the text, in characters."""
        return [match.span() for match in self._pattern.finditer(text)]


class Search:
    """The rows of one document that match a query."""

    def __init__(self, query: Query, document: Document) -> None:
        self.query = query
        self.matches: list[int] = []
        """Matching rows in ascending order, as far as the document has been read."""
        self.complete = False
        self._document = document

    async def run(self, start: int, on_match: Callable[[int], None], on_progress: Callable[[], None]) -> None:
        """Read all rows from `start` to the end, then from the top, so that the nearest match comes first."""
        length, read = len(self._document), 0

        def visit(index: int, row: Row) -> bool:
            nonlocal read
            read += 1
            if self.query.hits(row.text) or (row.inside is not None and self.query.hits(row.inside())):
                insort(self.matches, index)
                on_match(index)
            if read % _PROGRESS_EVERY == 0:
                on_progress()
            return False

        await scan(self._document, [*range(start, length), *range(start)], visit)
        self.complete = True
        on_progress()

    def next(self, row: int, by: int) -> int | None:
        """Return the match after a row, or before it if `by` is -1, cyclically."""
        if not self.matches:
            return None
        at = bisect_right(self.matches, row) if by > 0 else bisect_left(self.matches, row) - 1
        return self.matches[at % len(self.matches)]

    def number(self, row: int) -> int:
        """Return the 1-based number of the match in a row, 0 if the row has none."""
        at = bisect_right(self.matches, row)
        return at if at and self.matches[at - 1] == row else 0


class SearchBar(Horizontal):
    """Hidden until it is opened; posts each change of the text, and when the user is done."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("down", "submit", show=False),
    ]

    @dataclass
    class Changed(Message):
        """The text to search for has changed."""

        text: str

    @dataclass
    class Closed(Message):
        """The user is done typing; `keep` the search for n and N."""

        keep: bool

    def compose(self) -> ComposeResult:
        yield Static(Content(" /"), id="search-mark")
        yield Input(placeholder="search in this pane", compact=True, select_on_focus=True)
        yield Static(id="search-count")

    def open(self) -> None:
        """Show the line and type into it."""
        self.display = True
        self.query_one(Input).focus()

    def close(self) -> None:
        """Hide the line."""
        self.display = False

    def show_count(self, text: str) -> None:
        """Show how many matches there are."""
        self.query_one("#search-count", Static).update(Content(text))

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Closed(keep=bool(event.value)))

    def action_submit(self) -> None:
        self.post_message(self.Closed(keep=True))

    def action_cancel(self) -> None:
        self.post_message(self.Closed(keep=False))
