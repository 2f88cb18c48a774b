"""The widget that shows a document: it builds only the rows in view, on Textual's line API."""

from __future__ import annotations

from collections import deque
from functools import partial

from rich.cells import cell_len
from rich.style import Style
from textual import work
from textual.geometry import Region, Size
from textual.reactive import var
from textual.strip import Strip

from tcexplore.documents.document import Document, Link, Row, StaticDocument
from tcexplore.ui.actions import bindings
from tcexplore.ui.lines.highlights import Highlights
from tcexplore.ui.lines.row_mouse import RowMouse
from tcexplore.ui.lines.row_painter import (
    MARGIN,
    LineContent,
    PaintedLines,
    RowPainter,
    RowState,
    flat,
    scrolled_to,
    thumb,
)
from tcexplore.ui.lines.row_scan import own_links, same_row
from tcexplore.ui.lines.search import Query, Search
from tcexplore.ui.messages import CursorMoved, HitReached, RowEntered, SearchCounted
from tcexplore.ui.terminal.themes import palette

_AROUND = 2
"""Rows in view above and below the cursor."""

_ABOVE = 4
"""Rows shown above the one that a document opens at."""


class RowView(RowMouse, can_focus=True):
    """Shows a `Document`, one row a line, with a cursor. It draws its own scrollbar into its last column."""

    BINDINGS = bindings("view")
    DEFAULT_CSS = "RowView { overflow: hidden hidden; scrollbar-size: 0 0; }"

    cursor: var[int] = var(0)
    highlighted: var[frozenset[Link]] = var(frozenset())
    """The selection; rows that stand for it are highlighted."""
    marked: var[Link | None] = var(None)
    """The links that the user marked."""
    faded: var[bool] = var(False)
    """Whether all rows are dimmed: they are of an older run."""
    search_query: var[Query | None] = var(None)
    """The text of the search, while there is one."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.document: Document = StaticDocument("", ())
        self._highlights = Highlights(self.document)
        self._search: Search | None = None
        self._steps: deque[tuple[int, bool]] = deque()
        """Pending steps to the next hit (or the previous one), by hit or by chapter; the first one is under way."""
        self._painter: RowPainter | None = None
        self._painted = PaintedLines()
        self._moved = False
        """Whether the user or the selection has moved the cursor or the view."""
        self._place_shown = False
        """Whether the view is scrolled to the place of the row under the cursor."""

    # ---- document

    def show(self, document: Document, cursor: int | None = None, opens_at: int | None = None) -> None:
        """Show another document with its row `cursor` under the cursor.

        Until the cursor has been moved, it goes to the row `opens_at`. Without either, cursor and scroll position
        follow the row that they were on; at the top they stay there.
        """
        row = cursor
        if row is None:
            row = same_row(self.document, self.cursor, document) if self.cursor else 0
        above = self.cursor - self.scroll_offset.y
        if opens_at is not None and not self._moved:
            row, above = max(0, min(opens_at, len(document) - 1)), _ABOVE
        self.document = document
        self._highlights = Highlights(document, self.highlighted)
        if self._painter is not None:
            self._painter.clear()
        # Neither the size of the widget nor a scrollbar of Textual depends on it, so the screen needs no new layout.
        self.set_reactive(RowView.virtual_size, Size(1, len(document)))
        self.set_reactive(RowView.cursor, row)
        self.scroll_to(y=row - above, animate=False)
        self.refresh_changed()
        if self.search_query is not None:
            self._start_search(row, jump=False)

    @property
    def cursor_row(self) -> Row | None:
        """The row under the cursor; None in an empty document."""
        return self.document.row(self.cursor) if len(self.document) else None

    @property
    def text_width(self) -> int:
        """Cells of a row that are in view."""
        return max(1, self.size.width - MARGIN)

    # ---- drawing

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines in view, without Textual's box drawing: the widget has no frame."""
        painter, width = self._current_painter(), self.size.width
        if width <= MARGIN:
            return [Strip.blank(crop.width, painter.base) for _ in crop.line_range]
        self._painted.begin(painter, width, self.column, self.search_query)
        top, bar = self.scroll_offset.y, self._thumb()
        lines = []
        for y in crop.line_range:
            content = self._content(y, bar)
            paint = partial(painter.content, top + y, content, self.search_query, width, self.column)
            lines.append(self._painted.line(y, content, paint))
        full_width = crop.x == 0 and crop.width == width
        return lines if full_width else [line.crop(crop.x, crop.right) for line in lines]

    def _content(self, y: int, bar: range) -> LineContent:
        """Return what line `y` of the view shows; the scrollbar's thumb is at the lines `bar`."""
        index = self.scroll_offset.y + y
        if index >= len(self.document):
            return LineContent(None, RowState(highlighted=False, marked=False, cursor=False, thumb=y in bar))
        row = self.document.row(index)
        state = RowState(
            highlighted=self._highlights.has(row),
            marked=self.marked in own_links(row),
            cursor=index == self.cursor and (self.has_focus or self.search_query is not None),
            thumb=y in bar,
            place=row.place,
            selected=self.selection.cells(index),
        )
        return LineContent(row.spans, state)

    def refresh_changed(self) -> None:
        """Repaint the lines that no longer show what was painted."""
        bar, width = self._thumb(), self.size.width
        changed = self._painted.changed(self._content(y, bar) for y in range(self.size.height))
        if changed:
            self.refresh(*(Region(0, lines.start, width, len(lines)) for lines in changed))

    def _current_painter(self) -> RowPainter:
        if self._painter is None:
            base = self.rich_style + Style(dim=True) if self.faded else self.rich_style
            filters = tuple(f for f in self.get_line_filters() if f.enabled)
            self._painter = RowPainter(palette(self.app.theme), base, self.background_colors[1], filters)
        return self._painter

    def _thumb(self) -> range:
        return thumb(self.scroll_offset.y, self.size.height, len(self.document))

    @property
    def _in_view(self) -> range:
        """The rows in view."""
        top = self.scroll_offset.y
        return range(top, min(top + self.size.height, len(self.document)))

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._painter = None

    # ---- moving

    @property
    def allow_vertical_scroll(self) -> bool:
        """Always True: Textual requires its own scrollbar otherwise."""
        return True

    def move_to(self, index: int, *, notify: bool = True) -> None:
        """Put the cursor on a row and scroll it into view; `notify` the screen that the user selected it."""
        index = max(0, min(index, len(self.document) - 1))
        self._moved = True
        moved, self.cursor = index != self.cursor, index
        self._scroll_into_view(index)
        self._show_place()
        row = self.cursor_row
        if notify and moved and row is not None:
            self.post_message(CursorMoved(row))

    def _scroll_into_view(self, index: int) -> None:
        """Scroll as little as shows the row with a few rows around it."""
        height = self.size.height
        around = min(_AROUND, (height - 1) // 2)
        top = self.scroll_offset.y
        wanted = min(max(top, index + around - height + 1), index - around)
        if wanted != top:
            self.scroll_to(y=wanted, animate=False)

    def _show_place(self) -> None:
        """Scroll sideways to the row's place, and back when the cursor leaves such a row."""
        row = self.cursor_row
        place = row.place if row is not None else None
        if place is not None or self._place_shown:
            self.column = scrolled_to(place, self.column, self.text_width)
        self._place_shown = place is not None

    def center_on(self, index: int) -> None:
        """Put the cursor on a row without selecting it; if out of view, the row comes to a third of the height."""
        height = self.size.height
        if not self.scroll_offset.y <= index < self.scroll_offset.y + height:
            self.scroll_to(y=index - height // 3, animate=False)
        self.move_to(index, notify=False)

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
        widest = max((cell_len(flat(self.document.row(i).text)) for i in self._in_view), default=0)
        self.column = max(0, min(self.column + by, widest - self.size.width + MARGIN))

    def action_enter(self) -> None:
        row = self.cursor_row
        if row is not None:
            self.post_message(RowEntered(row))

    # ---- highlights

    def reveal(self, near: frozenset[Link] = frozenset()) -> None:
        """Scroll to a highlighted row: of the links `near`, else to the first hit unless one is in view.

        In a long document that has not been read yet this happens later.
        """
        if not self.highlighted:
            return
        index = self._highlights.index
        near &= self._highlights.exact
        row = None if near else self._highlighted_in_view()
        if row is None and index.complete:
            row = min(index.rows(near), default=next(iter(self._highlights.all().starts), None))
        if row is not None:
            self.center_on(row)
        elif not index.complete:
            self._reveal_later(near)

    @work(group="reveal", exclusive=True, exit_on_error=False)
    async def _reveal_later(self, near: frozenset[Link]) -> None:
        highlights = self._highlights
        if near:
            await highlights.index.read()
        row = min(highlights.index.rows(near), default=None)
        if row is None:
            row = await self.first_highlighted()
        if row is not None and highlights is self._highlights:
            self.center_on(row)

    async def first_highlighted(self) -> int | None:
        """Return the row that `reveal` scrolls to, once it is found; None if no row is highlighted."""
        row = self._highlighted_in_view()
        return row if row is not None else await self._highlights.first()

    def _highlighted_in_view(self) -> int | None:
        return self._highlights.first_of((self.cursor, *self._in_view) if len(self.document) else ())

    @property
    def highlighted_cursor(self) -> tuple[Link, ...]:
        """The links of the row under the cursor, if it is highlighted."""
        row = self.cursor_row
        return row.links if row is not None and self._highlights.has(row) else ()

    @property
    def is_apart(self) -> bool:
        """Whether the cursor stays on a row that is not highlighted."""
        return not self.highlighted_cursor and (not self.highlighted or self._highlights.index.complete)

    def next_hit(self, by: int, *, chapter: bool = False) -> None:
        """Put the cursor on the next hit (`by` -1: the previous one), or on the first one of the next chapter.

        The selection stays. Keys that are held down wait until the document has been read.
        """
        self._steps.append((by, chapter))
        if len(self._steps) == 1:
            self._take_steps()

    @work(group="steps", exit_on_error=False)
    async def _take_steps(self) -> None:
        try:
            while self._steps:
                by, chapter = self._steps[0]
                await self._highlights.index.read()
                hits = self._highlights.all()
                row = hits.next(self.cursor, by, chapter=chapter)
                if row is not None:
                    self.center_on(row)
                self.post_message(HitReached("" if row is None else hits.label(row)))
                self._steps.popleft()
        finally:
            self._steps.clear()

    # ---- search

    @property
    def current_search(self) -> Search | None:
        """The search that is under way or complete; None without one."""
        return self._search

    def search(self, text: str, start: int) -> None:
        """Mark `text` everywhere and go to its first row from `start` on; empty text ends the search and scrolls back
        to the left."""
        self.search_query = Query(text) if text else None
        if not text:
            self.column = 0
        self._start_search(start, jump=True)

    def next_match(self, by: int) -> None:
        """Put the cursor on the next row with a match (`by` -1: the previous one), cyclically; without a search, on
        the next hit of the selection."""
        if self._search is None:
            self.next_hit(by)
        elif (row := self._search.next(self.cursor, by)) is not None:
            self._go_to_match(row)
            self._post_count()

    def _start_search(self, start: int, *, jump: bool) -> None:
        self.workers.cancel_group(self, "search")
        self._search = Search(self.search_query, self.document) if self.search_query is not None else None
        if self._search is not None:
            self._run_search(self._search, start, jump)

    @work(group="search", exclusive=True, exit_on_error=False)
    async def _run_search(self, search: Search, start: int, jump: bool) -> None:
        def on_match(row: int) -> None:
            if jump and len(search.matches) == 1:
                self._go_to_match(row)

        await search.run(start, on_match, self._post_count)

    def _go_to_match(self, index: int) -> None:
        self.move_to(index)
        query, row = self.search_query, self.cursor_row
        if query is not None and row is not None and (places := query.places(row.text)):
            self.column = scrolled_to(places[0], self.column, self.text_width)

    def _post_count(self) -> None:
        if (search := self._search) is not None:
            self.post_message(SearchCounted(search.number(self.cursor), len(search.matches), search.complete))

    # ---- changes

    def on_mouse_scroll_down(self) -> None:
        self._moved = True

    on_mouse_scroll_up = on_mouse_scroll_down

    def watch_cursor(self) -> None:
        self.refresh_changed()

    def watch_column(self) -> None:
        self.refresh()

    def watch_highlighted(self, links: frozenset[Link]) -> None:
        self._highlights.links = links
        self.refresh_changed()

    watch_marked = watch_cursor

    def watch_faded(self) -> None:
        self._painter = None
        self.refresh()

    watch_search_query = watch_faded
