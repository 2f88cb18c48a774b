"""The grid of all panes: their sizes, which are in view, and which one is current."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.geometry import Size
from textual.message import Message
from textual.reactive import var

from tcexplore.documents.document import Row, Span
from tcexplore.ui.pane import Pane
from tcexplore.ui.pane_table import PANES, PaneSpec

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


@dataclass(frozen=True, slots=True)
class Place:
    """Where the user is in the panes of a model file."""

    pane: str = ""
    """The current pane; empty for the first one."""
    views: dict[str, str] = field(default_factory=dict)
    """The view of each pane, by the pane's name; the first one if there is none."""


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


_SHARED = ("timing", "output")
"""Panes that share one cell; the one that was current last has it."""


class PaneGrid(Container):
    """Shows as many panes as fit."""

    BLANK = True  # the panes cover it; Textual would render each of its lines

    current: var[str] = var("source")
    """The pane that gets the keys, also while the user types a search."""
    zoomed: var[bool] = var(False)
    late: var[bool] = var(False)
    """Whether panes mark documents of older runs."""
    sizes: var[PaneSizes] = var(PaneSizes)
    suggested: var[str] = var("graph")
    """The pane beside the source pane where two fit, until the user goes to another one."""

    @dataclass
    class Arranged(Message):
        """Other panes are in view, or another one is current."""

        current: str
        arrangement: Arrangement

    def __init__(self) -> None:
        super().__init__(id="panes")
        self.panes = {spec.id: Pane(spec) for spec in PANES}
        self.arrangement: Arrangement = "all"
        self._shared = "timing"
        self._second = ""
        """The pane beside the source pane that the user went to last."""

    def compose(self) -> ComposeResult:
        yield from (self.panes[name] for name in CELLS)

    @property
    def pane(self) -> Pane:
        """The current pane."""
        return self.panes[self.current]

    @property
    def visible_panes(self) -> list[Pane]:
        return [pane for pane in self.panes.values() if pane.display]

    def open_with(self, name: str) -> None:
        """Make a pane the current one before the grid is mounted."""
        self.set_reactive(PaneGrid.current, name)
        self._remember(name)

    @property
    def place(self) -> Place:
        """The current pane, and the view of each."""
        return Place(self.current, {name: pane.view.name for name, pane in self.panes.items()})

    def go_to(self, place: Place) -> None:
        """Go to the pane of a place, and show its views; the first ones where it names none."""
        for name, pane in self.panes.items():
            pane.show_view(pane.spec.view(place.views.get(name, "")) or pane.spec.views[0])
        self.current = place.pane if place.pane in self.panes else next(iter(self.panes))

    def next_pane(self, by: int) -> None:
        """Switch to the pane `by` numbers after the current one, cyclically."""
        names = list(self.panes)
        self.current = names[(names.index(self.current) + by) % len(names)]

    def lay_out(self) -> None:
        """Show the panes that fit the terminal."""
        self.arrangement = arrange(self.app.size, zoomed=self.zoomed)
        visible = self._visible()
        for name, pane in self.panes.items():
            pane.display = name in visible
            pane.single = self.arrangement == "one"
        self.set_class(self.arrangement == "one", "-single")
        self._set_sizes()
        self.pane.rows.focus()
        self.post_message(self.Arranged(self.current, self.arrangement))

    def _visible(self) -> set[str]:
        if self.arrangement == "one":
            return {self.current}
        if self.arrangement == "two":
            return {"source", self._second or self.suggested}
        return {name for name in self.panes if name not in _SHARED or name == self._shared}

    def _set_sizes(self) -> None:
        columns, rows = {
            "one": ((100,), (100,)),
            "two": ((self.sizes.source, 100 - self.sizes.source), (100,)),
            "all": (self.sizes.columns, self.sizes.rows),
        }[self.arrangement]
        self.styles.grid_size_columns, self.styles.grid_size_rows = len(columns), len(rows)
        self.styles.grid_columns = " ".join(f"{share}fr" for share in columns)
        self.styles.grid_rows = " ".join(f"{share}fr" for share in rows)

    def resize(self, wider: int = 0, taller: int = 0) -> None:
        """Make the current pane wider or taller, or with -1 narrower or lower."""
        if self.arrangement == "one":
            return
        if wider:
            self.sizes = self.sizes.wider(self.current, wider, self.arrangement)
        elif self.arrangement == "all":
            self.sizes = self.sizes.taller(self.current, taller)

    def on_mount(self) -> None:
        self.lay_out()

    def _remember(self, current: str) -> None:
        if current in _SHARED:
            self._shared = current
        if current != "source":
            self._second = current

    def watch_current(self, current: str) -> None:
        self._remember(current)
        if self.is_mounted:
            self.lay_out()

    def watch_late(self, late: bool) -> None:
        for pane in self.panes.values():
            pane.late = late

    def watch_sizes(self) -> None:
        if self.is_mounted:
            self._set_sizes()

    def watch_suggested(self) -> None:
        if self.is_mounted and self.arrangement == "two" and not self._second:
            self.lay_out()

    def watch_zoomed(self) -> None:
        if self.is_mounted:
            self.lay_out()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        pane = event.widget.parent
        if isinstance(pane, Pane):
            self.current = pane.spec.id


def tabs(current: str) -> Callable[[int], Row]:
    """Return the line of pane names for a single pane; names that do not fit are abbreviated."""

    def row(width: int) -> Row:
        short = sum(len(pane.title) + 4 for pane in PANES) > width
        return Row(tuple(_tab(pane, current=pane.id == current, short=short) for pane in PANES))

    return row


def _tab(pane: PaneSpec, *, current: bool, short: bool) -> Span:
    if current:
        return Span(f"[{pane.number} {pane.title}]", "badge.muted")
    return Span(f" {pane.number} {pane.title[:3] if short else pane.title} ", "muted")
