"""A scrolling list of rows on textual's line API: only what is in view is ever built, and each row only once."""

from __future__ import annotations

from rich.style import Style
from textual import events
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tcexplore.ui.actions import bindings
from tcexplore.ui.document import Document, Link, Row
from tcexplore.ui.ink import Ink
from tcexplore.ui.keeping import same_row
from tcexplore.ui.messages import CursorMoved, RowEntered
from tcexplore.ui.palette import palette
from tcexplore.ui.scan import LinkIndex, own_links
from tcexplore.ui.strips import Query, strip
from tcexplore.ui.text_document import Text


class LineView(ScrollView, can_focus=True):
    """Shows a `Document`, one row a line, with a cursor. The last column is kept for marks: lit, and "goes on"."""

    BINDINGS = bindings("view")

    cursor: var[int] = var(0)
    column: var[int] = var(0)
    """Cells scrolled to the right."""
    lit: var[frozenset[Link]] = var(frozenset())
    sought: var[Query | None] = var(None)

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.document: Document = Text("", ())
        self._strips: LRUCache[tuple[int, str, bool], Strip] = LRUCache(4096)
        self._links = LinkIndex(self.document)
        self._ink = Ink(palette(""), Style(), 0)

    # ---- what is shown

    def show(self, document: Document) -> None:
        """Show another document; cursor and scroll position stay with what they were on, else where they were."""
        kept = same_row(self.document, self.cursor, document)
        above = self.cursor - self.scroll_offset.y
        self.document, self._links = document, LinkIndex(document)
        self._strips.clear()
        self.virtual_size = Size(1, len(document))
        self.set_reactive(LineView.cursor, kept)
        self.scroll_to(y=kept - above, animate=False)
        self.refresh()

    @property
    def cursor_row(self) -> Row | None:
        """The row under the cursor; None in an empty document."""
        return self.document.row(self.cursor) if len(self.document) else None

    # ---- drawing

    def render_lines(self, crop: Region) -> list[Strip]:
        self._ink = Ink(palette(self.app.theme), self.rich_style, self.scrollable_content_region.width)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        index, ink = self.scroll_offset.y + y, self._ink
        if index >= len(self.document) or ink.width < 2:
            return Strip.blank(ink.width, ink.base)
        row = self.document.row(index)
        lit = self._is_lit(row)
        if index == self.cursor:
            base = ink.base + ink.palette.style("cursor" if self.has_focus else "cursor.blurred")
            whole = strip(row, ink.palette, base, self.sought, current=True)
        else:
            base = ink.base + ink.palette.style("lit") if lit else ink.base
            whole = self._strip(index, row, base, lit)
        return ink.cropped(whole, base, self.column, lit)

    def _strip(self, index: int, row: Row, base: Style, lit: bool) -> Strip:
        """The row's strip in full width, before it is cropped, so that scrolling sideways finds it again."""
        key = (index, self._ink.palette.epoch, lit)
        found = self._strips.get(key)
        if found is None:
            found = strip(row, self._ink.palette, base, self.sought)
            self._strips.set(key, found)
        return found

    def _is_lit(self, row: Row) -> bool:
        return bool(self.lit) and not self.lit.isdisjoint(own_links(row))

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()

    # ---- moving

    def move_to(self, index: int, *, tell: bool = True) -> None:
        """Put the cursor on a row and bring it into view; `tell` the screen that the person selected it."""
        index = max(0, min(index, len(self.document) - 1))
        moved, self.cursor = index != self.cursor, index
        height = self.scrollable_content_region.height
        top = self.scroll_offset.y
        if not top <= index < top + height:
            self.scroll_to(y=index if index < top else index - height + 1, animate=False)
        row = self.cursor_row
        if tell and moved and row is not None:
            self.post_message(CursorMoved(row))

    def centre_on(self, index: int) -> None:
        """Put the cursor on a row without selecting it; out of view, it comes to a third of the height."""
        height = self.scrollable_content_region.height
        if not self.scroll_offset.y <= index < self.scroll_offset.y + height:
            self.scroll_to(y=index - height // 3, animate=False)
        self.move_to(index, tell=False)

    def reveal(self) -> None:
        """Bring the first lit row into view, unless one is; a long document that is not read yet follows later."""
        if not self.lit:
            return
        top = self.scroll_offset.y
        inside = range(top, min(top + self.scrollable_content_region.height, len(self.document)))
        found = next((i for i in inside if self._is_lit(self.document.row(i))), None)
        if found is None:
            found = self._links.first(self.lit)
        if found is not None:
            self.centre_on(found)
        else:
            self.run_worker(self._reveal_later(self._links), group="reveal", exclusive=True, exit_on_error=False)

    async def _reveal_later(self, links: LinkIndex) -> None:
        found = await links.find(self.lit)
        if found is not None and links is self._links:
            self.centre_on(found)

    def action_cursor(self, by: int) -> None:
        self.move_to(self.cursor + by)

    def action_page(self, by: int) -> None:
        page = max(1, self.scrollable_content_region.height - 1)
        self.scroll_to(y=self.scroll_offset.y + by * page, animate=False)
        self.move_to(self.cursor + by * page)

    def action_to_end(self, end: int) -> None:
        self.column = 0
        self.move_to(len(self.document) - 1 if end > 0 else 0)

    def action_sideways(self, by: int) -> None:
        region = self.scrollable_content_region
        top = self.scroll_offset.y
        rows = range(top, min(top + region.height, len(self.document)))
        widest = max(
            (strip(self.document.row(i), palette(self.app.theme), Style()).cell_length for i in rows), default=0
        )
        self.column = max(0, min(self.column + by, widest - region.width + 1))

    def action_enter(self) -> None:
        row = self.cursor_row
        if row is not None:
            self.post_message(RowEntered(row))

    # ---- mouse, focus, changes

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        index = self.scroll_offset.y + offset.y
        if index < len(self.document):
            self.move_to(index)
            if event.chain == 2:
                self.action_enter()

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        event.stop()
        self.action_sideways(8)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        event.stop()
        self.action_sideways(-8)

    def watch_cursor(self, old: int, new: int) -> None:
        top = self.scroll_offset.y
        width = self.size.width
        self.refresh(Region(0, old - top, width, 1), Region(0, new - top, width, 1))

    def watch_column(self) -> None:
        self.refresh()

    def watch_lit(self) -> None:
        self.refresh()

    def watch_sought(self) -> None:
        self._strips.clear()
        self.refresh()
