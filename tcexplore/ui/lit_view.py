"""Finding the rows that are lit, however long the document is."""

from __future__ import annotations

from collections import deque

from textual import work

from tcexplore.ui.document import Document, Link, chapters
from tcexplore.ui.hits import Hits, hits
from tcexplore.ui.line_view import LineView
from tcexplore.ui.messages import HitReached
from tcexplore.ui.scan import LinkIndex, own_links


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

    def reveal(self) -> None:
        """Bring what is lit into view, unless the cursor is on it: the statements of a kernel rather than its heading.

        In a long document that is not read yet that happens later.
        """
        if not self.lit:
            return
        row = self.cursor_row
        here = row is not None and not self._exact.isdisjoint(own_links(row))
        known = self.cursor if here else self._known(self._exact)
        if known is None and not self._links.complete:
            self._reveal_later()
        found = known if known is not None else self._known(self.lit)
        if found is not None:
            self.centre_on(found)

    async def lit_row(self) -> int | None:
        """The row that `reveal` goes to, as soon as it is found; None where no row is lit."""
        known = self._known(self._exact)
        found = known if known is not None else await self._links.find(self._exact)
        return found if found is not None else self._known(self.lit)

    @property
    def lit_cursor(self) -> tuple[Link, ...]:
        """What the row under the cursor stands for, where it is lit."""
        row = self.cursor_row
        return row.links if row is not None and self._is_lit(row) else ()

    @property
    def _exact(self) -> frozenset[Link]:
        """What is lit but for whole kernels."""
        return frozenset(link for link in self.lit if link.kind != "kernel")

    def _known(self, links: frozenset[Link]) -> int | None:
        """A row that stands for one of the links: in view, or read already."""
        rows = (i for i in self._inside if not links.isdisjoint(own_links(self.document.row(i))))
        return next(rows, self._links.first(links))

    @work(group="reveal", exclusive=True, exit_on_error=False)
    async def _reveal_later(self) -> None:
        links = self._links
        found = await self.lit_row()
        if found is not None and links is self._links:
            self.centre_on(found)

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
                found = await self._found()
                row = found.beside(self.cursor, by, chapter=chapter)
                if row is not None:
                    self.centre_on(row)
                self.post_message(HitReached("" if row is None else found.words(row)))
                self._steps.popleft()
        finally:
            self._steps.clear()

    async def _found(self) -> Hits:
        """The hits of what is lit; kept until something else is lit, or another document shown."""
        links, lit = self._links, self.lit
        if self._hits is None or self._hits[:2] != (links, lit):
            exact = await links.all(self._exact)
            found = hits(await links.all(lit), exact, chapters(self.document))
            self._hits = links, lit, found
        return self._hits[2]
