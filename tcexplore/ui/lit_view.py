"""Finding the rows that are lit, however long the document is."""

from __future__ import annotations

from textual import work

from tcexplore.ui.document import Document, Link, Row
from tcexplore.ui.line_view import LineView
from tcexplore.ui.scan import LinkIndex, own_links, scan


class LitView(LineView):
    """A `LineView` that goes to what is lit."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._links = LinkIndex(self.document)
        self._steps, self._stepping = 0, False
        """Lit rows that are still to be gone on by, or back; whether that is under way."""

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

    def next_lit(self, by: int) -> None:
        """Put the cursor on the next lit row (`by` -1: the one before), round the end; the selection stays.

        A key that is held down waits for the row that is being looked for.
        """
        self._steps += by
        if not self._stepping:
            self._stepping = True
            self._step()

    @work(group="steps", exit_on_error=False)
    async def _step(self) -> None:
        try:
            while self._steps:
                by = 1 if self._steps > 0 else -1
                found = await self._beside(by)
                if found is None:
                    return
                self.centre_on(found)
                self._steps -= by
        finally:
            self._steps, self._stepping = 0, False

    async def _beside(self, by: int) -> int | None:
        """The lit row next to the cursor in one direction."""
        length, here = len(self.document), self.cursor
        found: list[int] = []

        def visit(index: int, row: Row) -> bool:
            if self._is_lit(row):
                found.append(index)
            return bool(found)

        round_the_end = range(here + by, here + by * length, by) if self.lit else ()
        await scan(self.document, (index % length for index in round_the_end), visit)
        return found[0] if found else None
