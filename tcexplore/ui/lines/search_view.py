"""Searching in the rows of a view, without holding up a key however long the document is."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from textual import work
from textual.worker import get_current_worker

from tcexplore.documents.document import Document, Row
from tcexplore.ui.lines.lit_view import LitView
from tcexplore.ui.lines.row_scan import scan
from tcexplore.ui.lines.strips import Query
from tcexplore.ui.messages import SearchCounted

_TELL_EVERY = 2000
"""Rows between two reports of a search that is under way."""


class SearchView(LitView):
    """A `LitView` that finds text. `matches` are the rows that have it, ascending, as far as they have been read."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.matches: list[int] = []
        self._all_read = True

    def search(self, text: str, start: int) -> None:
        """Mark `text` wherever it stands and go to its first row from `start` on; empty text ends the search, and
        the view stands at the left again."""
        self.sought = Query(text) if text else None
        if not text:
            self.column = 0
        self._find(start, jump=True)

    def next_match(self, by: int) -> None:
        """Put the cursor on the next row with a match (`by` -1: the one before), round the end; where nothing is
        searched for, on the next hit of what is selected."""
        if self.sought is None:
            self.next_hit(by)
        elif self.matches:
            at = bisect_right(self.matches, self.cursor) if by > 0 else bisect_left(self.matches, self.cursor) - 1
            self._go(self.matches[at % len(self.matches)])
            self._tell()

    def show(self, document: Document, cursor: int | None = None) -> None:
        super().show(document, cursor)
        if self.sought is not None:
            self._find(self.cursor, jump=False)

    def _find(self, start: int, *, jump: bool) -> None:
        self.matches, self._all_read = [], False
        self.workers.cancel_group(self, "search")
        if self.sought is not None:
            self._read(self.sought, start, jump)

    @work(group="search", exclusive=True, exit_on_error=False)
    async def _read(self, query: Query, start: int, jump: bool) -> None:
        """Read all rows from `start` round to `start` again: the nearest match is found first."""
        worker, length, read = get_current_worker(), len(self.document), 0

        def visit(index: int, row: Row) -> bool:
            nonlocal jump, read
            read += 1
            if query.hits(row.text):
                insort(self.matches, index)
                if jump:
                    jump = False
                    self._go(index)
            if read % _TELL_EVERY == 0:
                self._tell()
            return worker.is_cancelled

        await scan(self.document, [*range(start, length), *range(start)], visit)
        self._all_read = True
        self._tell()

    def _go(self, index: int) -> None:
        self.move_to(index)
        query, row = self.sought, self.cursor_row
        if query is None or row is None:
            return
        place = next(iter(query.places(row.text)), None)
        width = self.scrollable_content_region.width - 2
        if place is not None and place[1] <= width:
            self.column = 0
        elif place is not None and not self.column <= place[0] <= place[1] <= self.column + width:
            self.column = place[1] - width * 2 // 3

    def _tell(self) -> None:
        at = bisect_right(self.matches, self.cursor) if self.cursor in self.matches else 0
        self.post_message(SearchCounted(at, len(self.matches), self._all_read))
