"""The widget that shows a document: it builds only the rows in view, on Textual's line API."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.style import Style
from textual import events, work
from textual.geometry import Region, Size
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tcexplore.documents.document import (
    Document,
    Link,
    Row,
    Span,
    StaticDocument,
    chapters,
    message,
    start,
    steered,
)
from tcexplore.ui.actions import bindings
from tcexplore.ui.messages import CopyRequested, CursorMoved, HitReached, RowEntered, SearchCounted, Steered
from tcexplore.ui.row_painter import (
    MARGIN,
    LineContent,
    PaintedLines,
    RowPainter,
    RowState,
    flat,
    scrolled_to,
    shown_part,
    thumb,
)
from tcexplore.ui.row_search import Highlights, Query, Search, own_links, same_row
from tcexplore.ui.themes import palette

_AROUND = 2
"""Rows in view above and below the cursor."""

_ABOVE = 4
"""Rows shown above the one that a document opens at."""

Cell = tuple[int, int]
"""A row, and a cell in it, counted from the left end of the text."""

_WHOLE_ROW = 1 << 20
"""More cells than a row has."""
_SIDEWAYS = 8
"""Cells to scroll sideways at a time."""


class DragSelection:
    """The selection from the cell where the drag began to the cell under the mouse."""

    def __init__(self) -> None:
        self._first: Cell | None = None
        self._last: Cell | None = None
        self.under_way = False
        """Whether the mouse button is down."""

    def begin(self, cell: Cell, *, under_way: bool) -> None:
        """Drop the selection, and begin a new one."""
        self._first, self._last, self.under_way = cell, None, under_way

    def extend(self, cell: Cell) -> None:
        """Move the end of the selection."""
        self._last = cell

    @property
    def ends(self) -> tuple[Cell, Cell] | None:
        """The first and the last selected cell; None if nothing is selected."""
        if self._first is None or self._last is None or self._first == self._last:
            return None
        return min(self._first, self._last), max(self._first, self._last)

    def cells(self, row: int) -> tuple[int, int] | None:
        """Return the first selected cell of a row, and the one after the last; None if none is selected."""
        if self.ends is None:
            return None
        (top, left), (bottom, right) = self.ends
        if not top <= row <= bottom:
            return None
        return (left, right + 1) if top == bottom else (0, _WHOLE_ROW)

    def text(self, document: Document) -> str:
        """Return the selected text; several rows are copied whole, as the key for copying a row does."""
        if self.ends is None:
            return ""
        (top, left), (bottom, right) = self.ends
        rows = [document.row(index) for index in range(max(0, top), min(bottom + 1, len(document)))]
        if top == bottom and rows:
            return _cut(flat(rows[0].text), left, right + 1)
        whole = [row for index, row in enumerate(rows) if index == 0 or not row.continued]
        return "\n".join(row.text.rstrip() if row.copy is None else row.copy for row in whole)


_LONGEST_WORD = 24
"""Characters that are repeated of a word that is cut."""


def _is_blank(row: Row) -> bool:
    return not row.links and not row.text.strip()


def _cut(text: str, start: int, end: int) -> str:
    """Return the text in a range of cells."""
    width = cell_len(text)
    head = set_cell_size(text, min(start, width))
    return set_cell_size(text, min(end, width))[len(head) :].strip()


class RowView(ScrollView, can_focus=True):
    """Shows a `Document`, one row a line, with a cursor. It draws its own scrollbar into its last column."""

    ALLOW_SELECT = False
    BINDINGS: ClassVar = [*bindings("view"), *bindings("timeline")]
    DEFAULT_CSS = "RowView { overflow: hidden hidden; scrollbar-size: 0 0; }"

    cursor: var[int] = var(0)
    column: var[int] = var(0)
    """Cells scrolled to the right."""
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
        self.selection = DragSelection()
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
        self._opening: str | None = None
        """The fold under the cursor that the user has opened: its rows are scrolled into view once they are there."""

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
        opened = len(document) - len(self.document)
        opening, self._opening = self._opening, None if opened else self._opening
        if opening is not None and opened > 0 and document.row(row).fold == opening:
            # As many of its rows as fit, below the fold itself.
            above = max(0, min(above, max(self.size.height - 1 - opened, _AROUND)))
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
    def hidden_text(self) -> str:
        """The end of the row under the cursor that is out of view, from the word that is cut."""
        row, room = self.cursor_row, self.text_width
        if row is None or self.column or self.search_query is not None:
            return ""
        text = flat(row.text).rstrip()
        if cell_len(text) <= room:
            return ""
        shown = shown_part(row, room).cells
        start = len(chop_cells(text, shown)[0]) if shown else 0
        word = text[:start].rpartition(" ")[2]
        return text[start - min(len(word), _LONGEST_WORD) :].strip()

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
        return LineContent(row.spans, state, row.kept)

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
        self._moved, self._opening = True, None
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
        """Move the cursor to the next row with text; without one, leave it."""
        index = self.cursor + by
        while 0 <= index < len(self.document) and _is_blank(self.document.row(index)):
            index += by
        self.move_to(index if 0 <= index < len(self.document) else self.cursor)

    def action_page(self, by: int) -> None:
        page = max(1, self.size.height - 1)
        self.scroll_to(y=self.scroll_offset.y + by * page, animate=False)
        self.move_to(self.cursor + by * page)

    def action_to_end(self, end: int) -> None:
        self.column = 0
        if end < 0:
            self.move_to(0)
            return
        self.move_to(self._last_row())
        self.scroll_to(y=self.max_scroll_y, animate=False)

    def _last_row(self) -> int:
        """Return the last row that is not blank or only about keys."""
        index = len(self.document) - 1
        while index > 0 and (_is_blank(row := self.document.row(index)) or (row.keys_only and not row.links)):
            index -= 1
        return max(index, 0)

    def action_zoom_axis(self, by: int) -> None:
        if choices := steered(self.document, "zoom", by, self.cursor):
            self.post_message(Steered(choices))

    def action_sideways(self, by: int) -> None:
        if choices := steered(self.document, "along", by, self.cursor):
            self.post_message(Steered(choices))
            return
        widest = max((cell_len(flat(self.document.row(i).text)) for i in self._in_view), default=0)
        self.column = max(0, min(self.column + by, widest - self.size.width + MARGIN))

    def action_enter(self) -> None:
        row = self.cursor_row
        if row is not None:
            self._opening = row.fold
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

    # ---- mouse

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or self.selection.ends is not None:
            return
        if offset.x == self.size.width - 1:
            self.scroll_to(y=offset.y * len(self.document) // self.size.height, animate=False)
            return
        index = self.scroll_offset.y + offset.y
        if index < len(self.document):
            self.move_to(index)
            if event.chain == 2:
                self.action_enter()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        scrollbar = event.x >= self.size.width - 1
        self.selection.begin(self._cell_at(event), under_way=event.button == 1 and not scrollbar)
        if self.selection.under_way:
            self.capture_mouse()
        self.refresh_changed()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.selection.under_way:
            outside = -(event.y < 0) or int(event.y >= self.size.height)
            if outside:
                self.scroll_relative(y=outside, animate=False)
            self.selection.extend(self._cell_at(event))
            self.refresh_changed()

    def on_mouse_up(self) -> None:
        if self.selection.under_way:
            self.release_mouse()
            self.selection.under_way = False
            if text := self.selection.text(self.document):
                self.post_message(CopyRequested(text))

    def _cell_at(self, event: events.MouseEvent) -> Cell:
        """Return the row nearest to the mouse, and its cell."""
        line = max(0, min(event.y, self.size.height - 1))
        return min(self.scroll_offset.y + line, len(self.document) - 1), max(0, event.x) + self.column

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        event.stop()
        self.action_sideways(_SIDEWAYS)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        event.stop()
        self.action_sideways(-_SIDEWAYS)

    def on_mouse_scroll_down(self) -> None:
        self._moved = True

    on_mouse_scroll_up = on_mouse_scroll_down

    # ---- changes

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


class GuardedDocument:
    """A document that shows an exception from building a row in place of that row."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.title = document.title
        self.start = start(document)
        self.chapters = chapters(document)
        self._length = len(document)
        self.steer = getattr(document, "steer", None)

    def __len__(self) -> int:
        return self._length

    def row(self, index: int) -> Row:
        try:
            return self._document.row(index)
        except Exception as error:  # noqa: BLE001  a bug in one row must not take down the app
            return Row((Span(f" this row cannot be shown: {_describe(error)}", "error"),))


def guarded(build: Callable[[], Document]) -> Document:
    """Return the document that `build` returns, or one with the exception that it raises."""
    try:
        return GuardedDocument(build())
    except Exception as error:  # noqa: BLE001  a bug in one document must not take down the app
        return message(
            "This pane cannot be shown.",
            _describe(error),
            "This is a bug in tcexplore, not in your file; the other panes still work.",
            style="error",
        )


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
