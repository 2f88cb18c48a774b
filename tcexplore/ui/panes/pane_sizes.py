"""The shares of the screen that panes have, which the user changes by keys."""

from __future__ import annotations

from typing import Literal, NamedTuple

from textual.geometry import Size

Arrangement = Literal["all", "two", "one"]
"""`two`: the source pane and another one side by side."""

ALL = Size(140, 40)
"""Smallest terminal, in cells, that shows all panes at once."""

TWO = Size(100, 16)
"""Smallest terminal, in cells, that shows two panes."""

STEP = 4
"""Change of a share by one key, in percent."""

LEAST = 16
"""Smallest share of a pane, in percent."""


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
    """Shares in percent."""

    columns: tuple[int, int, int] = (40, 28, 32)
    """The columns of the grid of all panes."""
    rows: tuple[int, int] = (58, 42)
    """The rows of that grid."""
    source: int = 50
    """The source pane's share where two panes are side by side."""

    def wider(self, pane: str, by: int, arrangement: Arrangement) -> PaneSizes:
        """Return the sizes with a wider pane (`by` 1) or a narrower one (`by` -1)."""
        if arrangement == "two":
            return self._replace(source=_bounded(self.source + by * STEP * (1 if pane == "source" else -1)))
        first, second, third = _changed(self.columns, CELLS[pane].column, by * STEP)
        return self._replace(columns=(first, second, third))

    def taller(self, pane: str, by: int) -> PaneSizes:
        """Return the sizes with a taller pane (`by` 1) or a lower one (`by` -1) in the grid of all panes."""
        upper, lower = _changed(self.rows, CELLS[pane].row, by * STEP)
        return self._replace(rows=(upper, lower))


def arrange(size: Size, *, zoomed: bool) -> Arrangement:
    """Return how many panes a terminal shows."""
    if zoomed or size.width < TWO.width or size.height < TWO.height:
        return "one"
    return "all" if size.width >= ALL.width and size.height >= ALL.height else "two"


def _bounded(share: int) -> int:
    return max(LEAST, min(share, 100 - LEAST))


def _changed(shares: tuple[int, ...], index: int, by: int) -> tuple[int, ...]:
    """Return the shares with one changed, at the cost of the largest other one that can give, or else unchanged."""
    others = [i for i in range(len(shares)) if i != index]
    other = max(others, key=lambda i: shares[i]) if by > 0 else min(others, key=lambda i: shares[i])
    changed = list(shares)
    changed[index] += by
    changed[other] -= by
    return tuple(changed) if min(changed) >= LEAST else shares
