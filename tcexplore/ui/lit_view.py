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

    @work(group="reveal", exclusive=True, exit_on_error=False)
    async def next_lit(self, by: int) -> None:
        """Put the cursor on the next lit row (`by` -1: the one before), round the end; the selection stays."""
        length, here = len(self.document), self.cursor
        found: list[int] = []

        def visit(index: int, row: Row) -> bool:
            if self._is_lit(row):
                found.append(index)
            return bool(found)

        round_the_end = range(here + by, here + by * length, by) if self.lit else ()
        await scan(self.document, (index % length for index in round_the_end), visit)
        if found:
            self.centre_on(found[0])
