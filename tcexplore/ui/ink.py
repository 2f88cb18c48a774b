"""What all lines of one drawing have in common, and how a full strip becomes a line of the view."""

from __future__ import annotations

from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tcexplore.ui.palette import Palette

LIT, MORE_LEFT, MORE_RIGHT = "◀", "‹", "›"


class Ink(NamedTuple):
    """Palette, base style and width in cells. The last column is for a mark: lit, or "the row goes on"."""

    palette: Palette
    base: Style
    width: int

    def cropped(self, whole: Strip, base: Style, column: int, lit: bool) -> Strip:
        """The part of a full strip that is in view when scrolled `column` cells to the right, with its marks."""
        room = self.width - 1
        shown = whole.crop_extend(column, column + room, base)
        mark = LIT if lit else MORE_RIGHT if whole.cell_length > column + room else " "
        edge = Strip([Segment(mark, base + self.palette.style("key" if lit else "muted"))], 1)
        if not column or not whole.cell_length:
            return Strip.join([shown, edge])
        first = Strip([Segment(MORE_LEFT, base + self.palette.style("muted"))], 1)
        return Strip.join([first, shown.crop(1, room), edge])
