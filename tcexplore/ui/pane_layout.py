"""The room of panes: shares that the user chose, or else shares that follow the content of each pane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple, Protocol

from rich.cells import cell_len
from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

from tcexplore.documents.document import Document, start
from tcexplore.ui.row_painter import MARGIN, flat, kept_spans

Arrangement = Literal["all", "two", "one"]
"""`two`: the source pane and another one side by side."""

STEP = 4
"""Change of a share by one key, in percent."""

LEAST = 16
"""Smallest share that the user can give a pane, in percent."""

COLUMNS = (40, 28, 32)
"""Shares of the columns of the grid of all panes in percent, unless the content of the panes changes them."""

UPPER = 58
"""Share of the upper pane of a column in percent, unless the content of both changes it."""

LEAST_LINES, LEAST_CELLS = 6, 32
"""Lines and cells, with the frame, that a pane keeps however little it shows."""

LINES_STEP, CELLS_STEP = 3, 4
"""What a pane needs is rounded up to a multiple of these, so that a row more or less moves no other pane."""

FRAME = 2
"""Lines, or columns, of a frame."""

SPARE = 1
"""Lines below the last row of a pane."""

CUT_ROWS = 12
"""A pane is as wide as its rows need, except for one in so many."""


class GridCell(NamedTuple):
    """The place of a pane in the grid of all panes."""

    column: int
    row: int


CELLS = {
    "source": GridCell(0, 0), "graph": GridCell(1, 0), "code": GridCell(2, 0),
    "breaks": GridCell(0, 1), "guards": GridCell(1, 1), "timing": GridCell(2, 1), "output": GridCell(2, 1),
}  # fmt: skip
"""The panes in the order of their cells, row by row."""


class PaneSizes(NamedTuple):
    """Shares in percent; None where the user chose none, so that the content of the panes decides."""

    columns: tuple[int, int, int] | None = None
    """The columns of the grid of all panes."""
    upper: tuple[int | None, int | None, int | None] = (None, None, None)
    """The upper pane of each column of that grid."""
    source: int = 50
    """The source pane's share where two panes are side by side."""

    def wider(self, pane: str, by: int, arrangement: Arrangement, shares: Sequence[int]) -> PaneSizes:
        """Return the sizes with a wider pane (`by` 1) or a narrower one (`by` -1) than in the current `shares`."""
        if arrangement == "two":
            return self._replace(source=_bounded(shares[0] + by * STEP * (1 if pane == "source" else -1)))
        first, second, third = _changed(shares, CELLS[pane].column, by * STEP)
        return self._replace(columns=(first, second, third))

    def taller(self, pane: str, by: int, upper: int) -> PaneSizes:
        """Return the sizes with a taller pane (`by` 1) or a lower one (`by` -1); `upper` is the share in its column."""
        column, row = CELLS[pane]
        shares = list(self.upper)
        shares[column] = _bounded(upper + by * STEP * (1 if row == 0 else -1))
        return self._replace(upper=(shares[0], shares[1], shares[2]))


def _bounded(share: int) -> int:
    return max(LEAST, min(share, 100 - LEAST))


def _changed(shares: Sequence[int], index: int, by: int) -> tuple[int, ...]:
    """Return the shares with one changed, at the cost of the largest other one that can give, or else unchanged."""
    others = [i for i in range(len(shares)) if i != index]
    other = max(others, key=lambda i: shares[i]) if by > 0 else min(others, key=lambda i: shares[i])
    changed = list(shares)
    changed[index] += by
    changed[other] -= by
    return tuple(changed) if min(changed) >= LEAST else tuple(shares)


class Need(NamedTuple):
    """Room that a pane needs to show all of its rows, and their important parts in full, with its frame."""

    lines: int
    cells: int
    whole: int = 0
    """Cells for whole rows, also their less important parts."""


def measure(document: Document, lines: int) -> Need:
    """Return what a document needs; only the rows of a first screen of `lines` lines count for the width."""
    first = min(start(document), max(0, len(document) - lines))
    rows = [document.row(index) for index in range(first, min(first + lines, len(document)))]
    kept = _width([sum(cell_len(flat(span.text)) for span in row.spans[: kept_spans(row)]) for row in rows])
    whole = _width([cell_len(flat(row.text)) for row in rows])
    return Need(_rounded(len(document) + FRAME + SPARE, LINES_STEP), kept, whole)


def _width(cells: Sequence[int]) -> int:
    """Return the width of a pane with rows of so many cells."""
    widest = sorted(cells)[-1 - len(cells) // CUT_ROWS] if cells else 0
    return _rounded(widest + FRAME + MARGIN, CELLS_STEP)


def _rounded(number: int, step: int) -> int:
    return -(-number // step) * step


def divide(room: int, shares: Sequence[int]) -> list[int]:
    """Return `room` divided by shares in percent."""
    ends = [room * share // 100 for share in accumulate(shares)]
    return [end - begin for begin, end in pairwise((0, *ends[:-1], room))]


def allot(parts: Sequence[int], needs: Sequence[int | None], keeps: Sequence[int]) -> list[int]:
    """Return the parts, changed so that those that need less give to those that need more, and still have `keeps`.

    The part that lacks the least is served first, and the one with most to spare gives first. A part whose need is
    unknown stays as it is.
    """
    known = [part if need is None else need for part, need in zip(parts, needs, strict=True)]
    lacks = [max(0, need - part) for part, need in zip(parts, known, strict=True)]
    spares = [max(0, part - max(need, keep)) for part, need, keep in zip(parts, known, keeps, strict=True)]
    moved = min(sum(lacks), sum(spares))
    allotted = list(parts)
    left = moved
    for index in sorted(range(len(parts)), key=lambda i: (lacks[i], i)):
        allotted[index] += min(left, lacks[index])
        left -= min(left, lacks[index])
    left = moved
    for index in sorted(range(len(parts)), key=lambda i: (-spares[i], i)):
        allotted[index] -= min(left, spares[index])
        left -= min(left, spares[index])
    return allotted


class Tiles(NamedTuple):
    """The room of the panes in view."""

    columns: list[int]
    """Cells of each column."""
    upper: list[int]
    """Lines of the upper pane of each column."""

    @classmethod
    def of(
        cls, size: Size, arrangement: Arrangement, visible: Sequence[str], sizes: PaneSizes, needs: Mapping[str, Need]
    ) -> Tiles:
        """Return the room of the `visible` panes in this size."""
        if arrangement != "all":
            columns = [size.width]
            if arrangement == "two":
                columns = divide(size.width, (sizes.source, 100 - sizes.source))
            return cls(columns, [size.height] * len(columns))
        columns = divide(size.width, sizes.columns or COLUMNS)
        if sizes.columns is None:
            # What a source line lacks at its end is not worth the rest of each row of another pane.
            needed = _widest({name: need.cells for name, need in needs.items()}, visible)
            whole = _widest({name: need.whole for name, need in needs.items()}, visible)
            columns = allot(columns, needed, [max(LEAST_CELLS, cells or 0) for cells in whole])
        return cls(columns, [_upper(size.height, sizes, needs, visible, column) for column in range(3)])

    def shares(self) -> list[int]:
        """Return the shares of the columns in percent."""
        total = max(1, sum(self.columns))
        ends = [round(100 * end / total) for end in accumulate(self.columns)]
        return [end - begin for begin, end in pairwise((0, *ends))]

    def regions(self, size: Size, arrangement: Arrangement, visible: Sequence[str]) -> dict[str, Region]:
        """Return the place of each visible pane."""
        left = [0, *accumulate(self.columns)]
        places = {}
        for index, name in enumerate(visible):
            column, row = CELLS[name] if arrangement == "all" else GridCell(index, 0)
            top, upper = (self.upper[column], self.upper[column]) if row else (0, 0)
            height = size.height - upper if row else self.upper[column]
            places[name] = Region(left[column], top, self.columns[column], height)
        return places


def _widest(cells: Mapping[str, int], visible: Sequence[str]) -> list[int | None]:
    """Return the cells of the pane of each column that needs most; None if no need is known."""
    known = [(CELLS[name].column, cells[name]) for name in visible if name in cells]
    return [max((wide for at, wide in known if at == column), default=None) for column in range(3)]


def _upper(lines: int, sizes: PaneSizes, needs: Mapping[str, Need], visible: Sequence[str], column: int) -> int:
    """Return the lines of the upper pane of a column."""
    chosen = sizes.upper[column]
    share = UPPER if chosen is None else chosen
    parts = divide(lines, (share, 100 - share))
    if chosen is None:
        names = sorted((name for name in visible if CELLS[name].column == column), key=lambda name: CELLS[name].row)
        known = [needs[name].lines if name in needs else None for name in names]
        parts = allot(parts, known, [LEAST_LINES] * len(parts)) if len(known) == len(parts) else parts
    return parts[0]


class PaneTiles(Protocol):
    """What the layout places."""

    def places(self, size: Size) -> dict[str, Region]:
        """Return the region of each pane in view, by its id."""
        ...


class PaneLayout(Layout):
    """Places the panes."""

    name = "panes"

    def __init__(self, panes: PaneTiles) -> None:
        self._panes = panes

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:  # noqa: ARG002
        parent.pre_layout(self)
        places = self._panes.places(size)
        return [
            WidgetPlacement(places[child.id], NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if child.id in places
        ]
