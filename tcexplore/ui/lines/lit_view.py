"""Finding the rows that are lit, however long the document is."""

from __future__ import annotations

from collections import deque

from textual import work

from tcexplore.documents.document import Document, Link, chapters
from tcexplore.ui.lines.highlight_runs import Hits, hits
from tcexplore.ui.lines.line_view import LineView
from tcexplore.ui.lines.row_scan import LinkIndex, own_links
from tcexplore.ui.messages import HitReached


class LitView(LineView):
    """A `LineView` that goes to what is lit."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._links = LinkIndex(self.document)
        self._steps: deque[tuple[int, bool]] = deque()
        """Hits still to be gone on by, or back, each by itself or to another chapter; the first one is under way."""
        self._hits: tuple[LinkIndex, frozenset[Link], Hits] | None = None

    def show(self, document: Document, cursor: int | None = None) -> None:
        self._links = LinkIndex(document)
        super().show(document, cursor)

    def reveal(self, near: frozenset[Link] = frozenset()) -> None:
        """Bring what is lit into view: where the user was, which `near` stands for, else the first hit unless one is
        in view; statements of a kernel rather than its heading.

        In a long document that is not read yet that happens later.
        """
        if not self.lit:
            return
        near &= self._exact
        known = None if near else self._in_view()
        if known is None and self._links.complete:
            known = min(self._links.rows(near), default=next(iter(self._all().starts), None))
        if known is not None:
            self.centre_on(known)
        elif not self._links.complete:
            self._reveal_later(near)

    @work(group="reveal", exclusive=True, exit_on_error=False)
    async def _reveal_later(self, near: frozenset[Link]) -> None:
        links = self._links
        if near:
            await links.read()
        found = min(links.rows(near), default=None)
        if found is None:
            found = await self.lit_row()
        if found is not None and links is self._links:
            self.centre_on(found)

    async def lit_row(self) -> int | None:
        """The row that `reveal` goes to, as soon as it is found; None where no row is lit."""
        known = self._in_view()
        return known if known is not None else await self._first()

    def _in_view(self) -> int | None:
        """The row under the cursor, else the first in view, that stands for what is lit."""
        exact = self._exact
        rows = (self.cursor, *self._inside) if len(self.document) else ()
        return next((row for row in rows if not exact.isdisjoint(own_links(self.document.row(row)))), None)

    async def _first(self) -> int | None:
        """The first hit, reading no further than the chapter that it is in."""
        links, lit, exact = self._links, self.lit, self._exact
        begins = chapters(self.document)
        for end in (*(chapter.row for chapter in begins[1:]), len(self.document)):
            await links.read(end)
            starts = hits(links.rows(lit), links.rows(exact), begins).starts
            if starts and (links.complete or starts[0] >= begins[0].row):
                return starts[0]
        return None

    @property
    def lit_cursor(self) -> tuple[Link, ...]:
        """What the row under the cursor stands for, where it is lit."""
        row = self.cursor_row
        return row.links if row is not None and self._is_lit(row) else ()

    @property
    def _exact(self) -> frozenset[Link]:
        """What is lit but for whole kernels."""
        return frozenset(link for link in self.lit if link.kind != "kernel")

    def next_hit(self, by: int, *, chapter: bool = False) -> None:
        """Put the cursor on the next hit (`by` -1: the one before), or the first one of the next kernel or graph, round
        the end; the selection stays.

        A key that is held down waits until the document has been read.
        """
        self._steps.append((by, chapter))
        if len(self._steps) == 1:
            self._step()

    @work(group="steps", exit_on_error=False)
    async def _step(self) -> None:
        try:
            while self._steps:
                by, chapter = self._steps[0]
                await self._links.read()
                found = self._all()
                row = found.beside(self.cursor, by, chapter=chapter)
                if row is not None:
                    self.centre_on(row)
                self.post_message(HitReached("" if row is None else found.words(row)))
                self._steps.popleft()
        finally:
            self._steps.clear()

    def _all(self) -> Hits:
        """The hits of what is lit in a document that is read; kept until that, or the document, is another."""
        links, lit = self._links, self.lit
        if self._hits is None or self._hits[:2] != (links, lit):
            found = hits(links.rows(lit), links.rows(self._exact), chapters(self.document))
            self._hits = links, lit, found
        return self._hits[2]
