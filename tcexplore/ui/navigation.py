"""Following the selection from pane to pane, and the way back."""

from __future__ import annotations

from tcexplore.documents.document import chapters
from tcexplore.session.jumplist import JumpList, Position
from tcexplore.ui.panes.pane import Pane
from tcexplore.ui.panes.pane_grid import Board
from tcexplore.ui.selection import Selection

_CHAIN = ("source", "graph", "code")
"""The panes from a line of the user's to the machine's code."""


class Walk:
    """Where the user has been on this board."""

    def __init__(self, board: Board, selection: Selection) -> None:
        self._board = board
        self._selection = selection
        self._trail = JumpList()

    async def on(self) -> bool:
        """Go to the selection's first row in the next pane that has one; returns whether there is such a pane."""
        here = self._here
        for pane in self._others():
            self._board.prepare(pane)
            await pane.ready()
            row = await pane.view.lit_row()
            if row is not None:
                self._trail = self._trail.leave(here)
                self._go(pane, row)
                return True
        return False

    def into(self, name: str) -> None:
        """Go to the chapter of the pane in view whose first row has the fold of this name."""
        view = self._board.pane.view
        document = view.document
        row = next((c.row for c in chapters(document) if document.row(c.row).fold == name), None)
        if row is not None:
            self._trail = self._trail.leave(self._here)
            view.centre_on(row)

    def back(self) -> Position | None:
        """Go to where the user followed from last; its links are to be selected again."""
        self._trail, found = self._trail.back(self._here)
        return self._return_to(found)

    def forward(self) -> Position | None:
        """Go where the user came back from; its links are to be selected again."""
        self._trail, found = self._trail.forward(self._here)
        return self._return_to(found)

    @property
    def _here(self) -> Position:
        pane = self._board.pane
        return Position(pane.spec.id, pane.view.cursor, pane.form.name, self._selection.links)

    def _others(self) -> list[Pane]:
        """The panes behind the current one, round the end, whose rows are of a kind that is selected: first those that
        show what became of a line, then those with what else there is to it."""
        names = list(self._board.panes)
        at = names.index(self._board.current)
        behind = sorted((*names[at + 1 :], *names[:at]), key=lambda name: name not in _CHAIN)
        panes = [self._board.panes[name] for name in behind]
        kinds = {link.kind for link in self._selection.chain}
        return [pane for pane in panes if not kinds.isdisjoint(pane.form.kinds)]

    def _return_to(self, found: Position | None) -> Position | None:
        if found is not None:
            pane = self._board.panes[found.pane]
            view = pane.spec.view(found.view)
            if view is not None and view is not pane.form:
                pane.show_view(view)
            self._go(pane, found.row)
        return found

    def _go(self, pane: Pane, row: int) -> None:
        self._board.current = pane.spec.id
        # A pane that just came into view has its size only then.
        pane.call_after_refresh(pane.view.centre_on, row)
