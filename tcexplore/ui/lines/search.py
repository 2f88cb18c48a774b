"""Text search in the rows of a document, in slices that leave time for keys, and the line for typing it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from tcexplore.documents.document import Document, Row
from tcexplore.ui.lines.row_scan import scan

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
            if self.query.hits(row.text):
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
