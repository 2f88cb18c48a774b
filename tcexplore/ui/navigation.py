"""Following the selection from pane to pane, and the list of places jumped from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tcexplore.documents.document import chapters
from tcexplore.session.links import Link
from tcexplore.ui.panes.pane import Pane
from tcexplore.ui.panes.pane_grid import PaneGrid
from tcexplore.ui.selection import Selection

LIMIT = 200
"""Positions in memory; older ones are dropped."""


class Position(NamedTuple):
    """A row of a view of a pane, with the links that it selects."""

    pane: str
    row: int
    view: str = ""
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class JumpList:
    """Positions before and after the current one."""

    behind: tuple[Position, ...] = field(default=())
    ahead: tuple[Position, ...] = field(default=())

    def leave(self, at: Position) -> JumpList:
        """Return the list after a jump from a position; later positions are dropped."""
        if self.behind and self.behind[-1] == at:
            return JumpList(self.behind)
        return JumpList((*self.behind, at)[-LIMIT:])

    def back(self, at: Position) -> tuple[JumpList, Position | None]:
        """Return the list and position before `at`, the current one; None if there is none."""
        if not self.behind:
            return self, None
        return JumpList(self.behind[:-1], (at, *self.ahead)), self.behind[-1]

    def forward(self, at: Position) -> tuple[JumpList, Position | None]:
        """Return the list and position after `at`; None if there is none."""
        if not self.ahead:
            return self, None
        return JumpList((*self.behind, at), self.ahead[1:]), self.ahead[0]


_CHAIN = ("source", "graph", "code")
"""The panes from a source line to the generated code."""


class Navigation:
    """Jumps in the panes of a grid, and the list of places jumped from."""

    def __init__(self, grid: PaneGrid, selection: Selection) -> None:
        self._grid = grid
        self._selection = selection
        self._jumplist = JumpList()

    async def follow(self, to: str = "") -> bool:
        """Jump to the selection's first row in the pane `to`, by default the next one with such a row.

        Return whether there is such a row.
        """
        position = self._position
        for pane in [self._grid.panes[to]] if to else self._other_panes():
            pane.build_hidden(self._grid.pane.rows.text_width)
            await pane.ready()
            row = await pane.rows.first_highlighted()
            if row is not None:
                self._jumplist = self._jumplist.leave(position)
                self._go_to(pane, row)
                return True
        return False

    def leave(self) -> None:
        """Remember the current place as one that the user jumps from."""
        self._jumplist = self._jumplist.leave(self._position)

    def open_chapter(self, fold: str) -> None:
        """Jump to the chapter of the current pane whose first row has this fold."""
        rows = self._grid.pane.rows
        document = rows.document
        row = next((c.row for c in chapters(document) if document.row(c.row).fold == fold), None)
        if row is not None:
            self._jumplist = self._jumplist.leave(self._position)
            rows.center_on(row)

    def back(self) -> Position | None:
        """Jump to where the user followed from last; its links are to be selected again."""
        self._jumplist, position = self._jumplist.back(self._position)
        return self._restore(position)

    def forward(self) -> Position | None:
        """Jump to where the user came back from; its links are to be selected again."""
        self._jumplist, position = self._jumplist.forward(self._position)
        return self._restore(position)

    @property
    def _position(self) -> Position:
        pane = self._grid.pane
        return Position(pane.spec.id, pane.rows.cursor, pane.view.name, self._selection.links)

    def _other_panes(self) -> list[Pane]:
        """Return the panes after the current one, cyclically, whose rows are of a selected kind.

        Those that show what a line was compiled to come first.
        """
        names = list(self._grid.panes)
        at = names.index(self._grid.current)
        after = sorted((*names[at + 1 :], *names[:at]), key=lambda name: name not in _CHAIN)
        panes = [self._grid.panes[name] for name in after]
        kinds = {link.kind for link in self._selection.chain}
        return [pane for pane in panes if not kinds.isdisjoint(pane.view.kinds)]

    def _restore(self, position: Position | None) -> Position | None:
        if position is not None:
            pane = self._grid.panes[position.pane]
            view = pane.spec.view(position.view)
            if view is not None and view is not pane.view:
                pane.show_view(view)
            self._go_to(pane, position.row)
        return position

    def _go_to(self, pane: Pane, row: int) -> None:
        self._grid.current = pane.spec.id
        # A pane that has just come into view has its size only after the next refresh.
        pane.call_after_refresh(pane.rows.center_on, row)
