"""The mouse in a view of rows: click, drag to select and copy, scroll sideways."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from textual import events
from textual.reactive import var
from textual.scroll_view import ScrollView

from tcexplore.documents.document import Document
from tcexplore.ui.lines.row_painter import flat
from tcexplore.ui.messages import CopyRequested

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
        return "\n".join(row.text.rstrip() if row.copy is None else row.copy for row in rows)


def _cut(text: str, start: int, end: int) -> str:
    """Return the text in a range of cells."""
    width = cell_len(text)
    head = set_cell_size(text, min(start, width))
    return set_cell_size(text, min(end, width))[len(head) :].strip()


class RowMouse(ScrollView):
    """A view that acts on the mouse. `RowView` has the rows."""

    ALLOW_SELECT = False
    document: Document
    column: var[int] = var(0)
    """Cells scrolled to the right."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.selection = DragSelection()

    def move_to(self, index: int) -> None:
        raise NotImplementedError

    def action_enter(self) -> None:
        raise NotImplementedError

    def action_sideways(self, by: int) -> None:
        raise NotImplementedError

    def refresh_changed(self) -> None:
        raise NotImplementedError

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
