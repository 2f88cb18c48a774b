"""The grid of all panes: which are in view, and which one is current."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.geometry import Size
from textual.message import Message
from textual.reactive import var

from tcexplore.documents.document import Row, Span
from tcexplore.ui.panes.pane import Pane
from tcexplore.ui.panes.pane_spec import PaneSpec
from tcexplore.ui.panes.pane_table import PANES

WIDE = Size(140, 40)
"""Smallest terminal, in cells, that shows all panes at once."""

_GRID = ("source", "graph", "code", "breaks", "guards", "timing", "output")
"""The panes in the order of their cells, row by row."""

_SHARED = ("timing", "output")
"""Panes that share one cell; the one that was current last has it."""


class PaneGrid(Container):
    """Shows as many panes as fit."""

    current: var[str] = var("source")
    """The pane that gets the keys, also while the user types a search."""
    zoomed: var[bool] = var(False)
    late: var[bool] = var(False)
    """Whether panes mark documents of older runs."""

    @dataclass
    class Arranged(Message):
        """Other panes are in view, or another one is current."""

        current: str
        single: bool

    def __init__(self) -> None:
        super().__init__(id="panes")
        self.panes = {spec.id: Pane(spec) for spec in PANES}
        self._shared = "timing"

    def compose(self) -> ComposeResult:
        yield from (self.panes[name] for name in _GRID)

    @property
    def pane(self) -> Pane:
        """The current pane."""
        return self.panes[self.current]

    @property
    def visible_panes(self) -> list[Pane]:
        return [pane for pane in self.panes.values() if pane.display]

    def next_pane(self, by: int) -> None:
        """Switch to the pane `by` numbers after the current one, cyclically."""
        names = list(self.panes)
        self.current = names[(names.index(self.current) + by) % len(names)]

    def lay_out(self) -> None:
        """Show the panes that fit the terminal, or only the current one."""
        size = self.app.size
        single = self.zoomed or size.width < WIDE.width or size.height < WIDE.height
        for name, pane in self.panes.items():
            pane.display = name == self.current if single else name not in _SHARED or name == self._shared
            pane.single = single
        self.set_class(single, "-single")
        self.pane.rows.focus()
        self.post_message(self.Arranged(self.current, single))

    def on_mount(self) -> None:
        self.lay_out()

    def watch_current(self, current: str) -> None:
        if current in _SHARED:
            self._shared = current
        if self.is_mounted:
            self.lay_out()

    def watch_late(self, late: bool) -> None:
        for pane in self.panes.values():
            pane.late = late

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
