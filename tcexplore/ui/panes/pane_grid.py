"""The grid of all panes: which are in view, and which one is current."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message
from textual.reactive import var

from tcexplore.documents.document import Row, Span
from tcexplore.ui.panes.pane import Pane
from tcexplore.ui.panes.pane_sizes import CELLS, Arrangement, PaneSizes, arrange
from tcexplore.ui.panes.pane_spec import PaneSpec
from tcexplore.ui.panes.pane_table import PANES

_SHARED = ("timing", "output")
"""Panes that share one cell; the one that was current last has it."""


class PaneGrid(Container):
    """Shows as many panes as fit."""

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
