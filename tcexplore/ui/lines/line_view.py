"""A scrolling list of rows on textual's line API: only what is in view is ever built, and each row only once."""

from __future__ import annotations

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tcexplore.documents.document import Document, Link, Row
from tcexplore.documents.document_parts import StaticDocument
from tcexplore.ui.actions import bindings
from tcexplore.ui.cursor_position import same_row
from tcexplore.ui.lines.row_painter import LIT, MARGIN, MARKED, Ink
from tcexplore.ui.lines.row_scan import own_links
from tcexplore.ui.lines.strips import Query, flat
from tcexplore.ui.messages import CursorMoved, RowEntered
from tcexplore.ui.terminal.style_palette import palette

_AROUND = 2
"""Rows kept in view above and below the cursor."""

_ABOVE = 4
"""Rows shown above the one that a document opens at."""


class LineView(ScrollView, can_focus=True):
    """Shows a `Document`, one row a line, with a cursor. It draws its own scrollbar into its last column."""

    BINDINGS = bindings("view")
    DEFAULT_CSS = "LineView { overflow: hidden hidden; scrollbar-size: 0 0; }"

    cursor: var[int] = var(0)
    column: var[int] = var(0)
    """Cells scrolled to the right."""
    lit: var[frozenset[Link]] = var(frozenset())
    marked: var[Link | None] = var(None)
    """What the user put a mark on."""
    faded: var[bool] = var(False)
    """Whether all rows are drawn dim: they are of an older run."""
    sought: var[Query | None] = var(None)

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.document: Document = StaticDocument("", ())
        self._ink: Ink | None = None
        self._moved = False
        """Whether the cursor, or what is in view, is somewhere for a reason."""

    # ---- what is shown

    def show(self, document: Document, cursor: int | None = None) -> None:
        """Show another document, its row `cursor` under the cursor.

        Without one, cursor and scroll position stay with what they were on, else where they were; at the top they stay
        at the top.
        """
        kept = cursor
        if kept is None:
            kept = same_row(self.document, self.cursor, document) if self.cursor else 0
        above = self.cursor - self.scroll_offset.y
        self.document = document
        self._forget()
        self.virtual_size = Size(1, len(document))
        self.set_reactive(LineView.cursor, kept)
        self.scroll_to(y=kept - above, animate=False)
        self.refresh()

    @property
    def cursor_row(self) -> Row | None:
        """The row under the cursor; None in an empty document."""
        return self.document.row(self.cursor) if len(self.document) else None

    @property
    def text_width(self) -> int:
        """Cells that a row has before it goes on out of view."""
        return max(1, self.size.width - MARGIN)

    # ---- drawing

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines in view. There is no frame, so nothing of textual's box drawing is needed for them."""
        ink, width = self._ink_now(), self.size.width
        if width <= MARGIN:
            return [Strip.blank(crop.width, ink.base) for _ in crop.line_range]
        thumb = self._thumb()
        lines = [self._line(y, ink, width, thumb=y in thumb) for y in crop.line_range]
        whole = crop.x == 0 and crop.width == width
        return lines if whole else [line.crop(crop.x, crop.right) for line in lines]

    def _line(self, y: int, ink: Ink, width: int, *, thumb: bool) -> Strip:
        index = self.scroll_offset.y + y
        if index >= len(self.document):
            return ink.blank(width, thumb=thumb)
        row = self.document.row(index)
        lit = self._is_lit(row)
        cursor = index == self.cursor and (self.has_focus or self.sought is not None)
        whole = (
            ink.cursor_row(row, lit=lit, query=self.sought)
            if cursor
            else ink.row(index, row, lit=lit, query=self.sought)
        )
        mark = MARKED if self.marked in own_links(row) else LIT if lit else ""
        return ink.line(whole, ink.ground(lit, cursor=cursor), width, self.column, mark=mark, thumb=thumb)

    def _forget(self) -> None:
        if self._ink is not None:
            self._ink.forget()

    def _ink_now(self) -> Ink:
        if self._ink is None:
            base = self.rich_style + Style(dim=True) if self.faded else self.rich_style
            filters = tuple(f for f in self.get_line_filters() if f.enabled)
            self._ink = Ink(palette(self.app.theme), base, self.background_colors[1], filters)
        return self._ink

    def _thumb(self) -> range:
        """The lines of the view that the scrollbar's thumb takes; none when all rows are in view."""
        height, rows = self.size.height, len(self.document)
        if rows <= height:
            return range(0)
        size = max(1, height * height // rows)
        top = round(self.scroll_offset.y * (height - size) / (rows - height))
        return range(top, top + size)

    def _is_lit(self, row: Row) -> bool:
        return bool(self.lit) and not self.lit.isdisjoint(own_links(row))

    @property
    def _inside(self) -> range:
        """The rows in view."""
        top = self.scroll_offset.y
        return range(top, min(top + self.size.height, len(self.document)))

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._ink = None

    # ---- moving

    @property
    def allow_vertical_scroll(self) -> bool:
        """Always: textual asks for a scrollbar of its own otherwise."""
        return True

    def move_to(self, index: int, *, tell: bool = True) -> None:
        """Put the cursor on a row and bring it into view; `tell` the screen that the user selected it."""
        index = max(0, min(index, len(self.document) - 1))
        self._moved = True
        moved, self.cursor = index != self.cursor, index
        self._keep_in_view(index)
        row = self.cursor_row
        if tell and moved and row is not None:
            self.post_message(CursorMoved(row))

    def _keep_in_view(self, index: int) -> None:
        """Scroll as little as shows the row with a few rows around it."""
        height = self.size.height
        around = min(_AROUND, (height - 1) // 2)
        top = self.scroll_offset.y
        wanted = min(max(top, index + around - height + 1), index - around)
        if wanted != top:
            self.scroll_to(y=wanted, animate=False)

    def centre_on(self, index: int) -> None:
        """Put the cursor on a row without selecting it; out of view, it comes to a third of the height."""
        height = self.size.height
        if not self.scroll_offset.y <= index < self.scroll_offset.y + height:
            self.scroll_to(y=index - height // 3, animate=False)
        self.move_to(index, tell=False)

    def open_at(self, index: int) -> None:
        """Put the cursor on a row to begin with, some rows below the top, unless it has been moved already."""
        if not self._moved:
            self.set_reactive(LineView.cursor, max(0, min(index, len(self.document) - 1)))
            self.scroll_to(y=self.cursor - _ABOVE, animate=False)
            self.refresh()

    def action_cursor(self, by: int) -> None:
        self.move_to(self.cursor + by)

    def action_page(self, by: int) -> None:
        page = max(1, self.size.height - 1)
        self.scroll_to(y=self.scroll_offset.y + by * page, animate=False)
        self.move_to(self.cursor + by * page)

    def action_to_end(self, end: int) -> None:
        self.column = 0
        self.move_to(len(self.document) - 1 if end > 0 else 0)

    def action_sideways(self, by: int) -> None:
        widest = max((cell_len(flat(self.document.row(i).text)) for i in self._inside), default=0)
        self.column = max(0, min(self.column + by, widest - self.size.width + MARGIN))

    def action_enter(self) -> None:
        row = self.cursor_row
        if row is not None:
            self.post_message(RowEntered(row))

    # ---- mouse, focus, changes

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.x == self.size.width - 1:
            self.scroll_to(y=offset.y * len(self.document) // self.size.height, animate=False)
            return
        index = self.scroll_offset.y + offset.y
        if index < len(self.document):
            self.move_to(index)
            if event.chain == 2:
                self.action_enter()

    def on_mouse_scroll_down(self) -> None:
        self._moved = True

    def on_mouse_scroll_up(self) -> None:
        self._moved = True

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

    def watch_marked(self) -> None:
        self.refresh()

    def watch_faded(self) -> None:
        self._ink = None
        self.refresh()

    def watch_sought(self) -> None:
        self._forget()
        self.refresh()
