"""The widget for one row of text across the screen, wrapped if it does not fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tcexplore.documents.document import Row, Span
from tcexplore.ui.row_painter import segments
from tcexplore.ui.themes import palette

if TYPE_CHECKING:
    pass

Line = Callable[[int], Row]
"""Builds the row for a width in cells."""


def lines(row: Row, width: int) -> list[Row]:
    """Wrap the row between spans into as many lines as it needs."""
    broken: list[list[Span]] = [[]]
    room = width
    for span in row.spans:
        cells = cell_len(span.text)
        if cells > room and broken[-1] and span.text.strip():
            broken.append([])
            room = width
        broken[-1].append(span)
        room -= cells
    return [Row(tuple(spans), row.links) for spans in broken]


class RowLine(Widget):
    """Shows a row that is built for the current width, and posts which span was clicked."""

    DEFAULT_CSS = "RowLine { height: auto; width: 1fr; }"

    @dataclass
    class Clicked(Message):
        """The user clicked a span of the line `id`."""

        id: str | None
        texts: tuple[str, ...]
        """The spans up to the clicked one."""

        @property
        def text(self) -> str:
            return self.texts[-1]

    def __init__(self, line: Line, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._line = line
        self._lines: list[Row] = [Row(())]

    def update(self, line: Line) -> None:
        """Show another row."""
        self._line = line
        before = self._lines
        self._lines = lines(self._line(self.size.width), self.size.width)
        if self._lines != before:
            self.refresh(layout=len(self._lines) != len(before))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        self._lines = lines(self._line(width), width)
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        base = self.rich_style
        if y >= len(self._lines):
            return Strip.blank(self.size.width, base)
        whole = Strip(segments(self._lines[y], palette(self.app.theme), base))
        return whole.crop_extend(0, self.size.width, base)

    def on_click(self, event: events.Click) -> None:
        if event.y < len(self._lines):
            left = event.x
            texts = tuple(span.text for span in self._lines[event.y].spans)
            for index, text in enumerate(texts):
                left -= cell_len(text)
                if left < 0:
                    self.post_message(self.Clicked(self.id, texts[: index + 1]))
                    return
