"""How a row becomes a line of a view: styled once in full width, then cropped to what is in view."""

from __future__ import annotations

from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.color import Color
from textual.filter import LineFilter
from textual.strip import Strip

from tcexplore.documents.document import Row
from tcexplore.ui.lines.strips import Query, segments
from tcexplore.ui.terminal.style_palette import Palette

LIT, MARKED, MORE_LEFT, MORE_RIGHT, THUMB = "◀", "⚑", "‹", "›", "▐"
MARGIN = 2
"""Columns at the right edge: a mark (marked, lit, or "the row goes on"), and the scrollbar's thumb."""

_EDGES = {LIT: "key", MARKED: "key", MORE_RIGHT: "muted"}
"""Styles of the marks at the right edge."""

KEPT = 4096
"""Rows whose segments are kept."""


class Whole(NamedTuple):
    """A row in full width: its segments and its cells."""

    segments: list[Segment]
    cells: int


class Ink:
    """What all lines of one drawing have in common: palette, base style, width in cells, cells scrolled sideways."""

    def __init__(self, palette: Palette, base: Style, background: Color, filters: tuple[LineFilter, ...]) -> None:
        self.palette = palette
        self.base = base
        self._background = background
        self._filters = filters
        self._wholes: LRUCache[tuple[int, bool], Whole] = LRUCache(KEPT)
        self._edges: dict[tuple[str, str, Style], Segment] = {}

    def forget(self) -> None:
        """The rows are others now."""
        self._wholes.clear()

    def row(self, index: int, row: Row, *, lit: bool, query: Query | None) -> Whole:
        """A row away from the cursor; built once, whatever the view scrolls to later."""
        found = self._wholes.get((index, lit))
        if found is None:
            found = self._whole(row, self.ground(lit), query, current=False)
            self._wholes.set((index, lit), found)
        return found

    def cursor_row(self, row: Row, *, lit: bool, query: Query | None) -> Whole:
        """The row under the cursor."""
        return self._whole(row, self.ground(lit, cursor=True), query, current=True)

    def ground(self, lit: bool, *, cursor: bool = False) -> Style:
        """The style under a row's own styles."""
        base = self.base + self.palette.style("lit") if lit else self.base
        return base + self.palette.style("cursor") if cursor else base

    def _whole(self, row: Row, base: Style, query: Query | None, *, current: bool) -> Whole:
        made = self._filtered(segments(row, self.palette, base, query, current=current))
        return Whole(made, sum(segment.cell_length for segment in made))

    def _filtered(self, made: list[Segment]) -> list[Segment]:
        for line_filter in self._filters:
            made = line_filter.apply(made, self._background)
        return made

    def line(self, whole: Whole, ground: Style, width: int, column: int, *, mark: str, thumb: bool) -> Strip:
        """The part of a row that is in view when scrolled `column` cells to the right, with its mark at the edge."""
        room = width - MARGIN
        mark = mark or (MORE_RIGHT if whole.cells > column + room else " ")
        edge = self._edge(mark, THUMB if thumb else " ", ground)
        if not column and whole.cells <= room:
            padding = Segment(" " * (room - whole.cells), ground)
            return Strip([*whole.segments, padding, *edge], width)
        shown = Strip(whole.segments, whole.cells).crop_extend(column, column + room, ground)
        if column and whole.cells:
            shown = Strip.join([Strip([self._part(MORE_LEFT, "muted", ground)], 1), shown.crop(1, room)])
        return Strip([*shown, *edge], width)

    def blank(self, width: int, *, thumb: bool) -> Strip:
        """A line below the last row."""
        return Strip(
            [Segment(" " * (width - MARGIN), self.base), *self._edge(" ", THUMB if thumb else " ", self.base)], width
        )

    def _edge(self, mark: str, thumb: str, ground: Style) -> tuple[Segment, Segment]:
        marked = _EDGES.get(mark, "")
        return self._part(mark, marked, ground), self._part(thumb, "" if thumb == " " else "rule", self.base)

    def _part(self, text: str, style: str, ground: Style) -> Segment:
        key = (text, style, ground)
        if key not in self._edges:
            self._edges[key] = self._filtered([Segment(text, ground + self.palette.style(style))])[0]
        return self._edges[key]
