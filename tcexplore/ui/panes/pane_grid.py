"""All panes: which are in view, and which one has the keys."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message
from textual.reactive import var

from tcexplore.session import Session
from tcexplore.ui import pane_layout as layout
from tcexplore.ui.panes import PANES
from tcexplore.ui.panes.pane import Pane

_GRID = ("source", "graph", "code", "breaks", "guards", "timing", "output")
"""The panes as they stand in the grid, row by row."""


class Board(Container):
    """Shows as many panes as fit, and keeps those in view up to date with the session."""

    current: var[str] = var("source")
    """The pane that has the keys, also while a search is typed."""
    zoomed: var[bool] = var(False)

    @dataclass
    class Arranged(Message):
        """Other panes are in view, or another one is current."""

        current: str
        single: bool

    def __init__(self) -> None:
        super().__init__(id="panes")
        self.panes = {spec.id: Pane(spec) for spec in PANES}
        self.session = Session()
        self._shared = "timing"

    def compose(self) -> ComposeResult:
        yield from (self.panes[name] for name in _GRID)

    @property
    def pane(self) -> Pane:
        """The current pane."""
        return self.panes[self.current]

    @property
    def shown(self) -> list[Pane]:
        """The panes in view."""
        return [pane for pane in self.panes.values() if pane.display]

    def follow(self, session: Session) -> None:
        """Show the session in the panes in view; the others catch up when they come into view."""
        self.session = session
        for pane in self.panes.values():
            pane.follow(session)

    def next_pane(self, by: int) -> None:
        """Make the pane `by` numbers further the current one, round the end."""
        names = list(self.panes)
        self.current = names[(names.index(self.current) + by) % len(names)]

    def prepare(self, pane: Pane) -> None:
        """Bring a pane up to date that may be out of view, for the width that it will come into view with."""
        pane.follow(self.session, self.pane.view.text_width)

    def lay_out(self) -> None:
        """Bring the panes into view that the size, the zoom and the current pane ask for."""
        size = self.app.size
        single = self.zoomed or not layout.fits_all(size)
        names = layout.visible(size, self.current, self._shared, self.zoomed)
        for name, pane in self.panes.items():
            pane.display = name in names
            pane.alone = single
        self.set_class(single, "-single")
        self.pane.view.focus()
        self.post_message(self.Arranged(self.current, single))

    def on_mount(self) -> None:
        self.lay_out()

    def watch_current(self, current: str) -> None:
        if layout.takes_shared_place(current):
            self._shared = current
        if self.is_mounted:
            self.lay_out()

    def watch_zoomed(self) -> None:
        if self.is_mounted:
            self.lay_out()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        pane = event.widget.parent
        if isinstance(pane, Pane):
            self.current = pane.spec.id
