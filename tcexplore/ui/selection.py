"""What the user selected, and the same thing in every pane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tcexplore.session import Session, Snapshot
from tcexplore.session.links import Link, break_link, closure, is_indexed, line_link
from tcexplore.ui.background_task import is_large
from tcexplore.ui.panes.pane import Pane


def index(run: Snapshot) -> None:
    """Have everything found that a selection in this run may light."""
    closure(run, [Link("line", "", "")])


class Selection:
    """The selected links, and all that is on the chain through them in the run in view."""

    def __init__(self) -> None:
        self.links: tuple[Link, ...] = ()
        self.chain: frozenset[Link] = frozenset()
        self.waiting: Snapshot | None = None
        """The run that `index` is to be called for, and the selection to be made again then."""
        self._snapshot: Snapshot | None = None

    def select(self, links: Sequence[Link], session: Session) -> None:
        """Select these links in the newest run that was compiled; in a large one only they are lit until it is
        indexed, or all that was where nothing else is selected."""
        again = self.links == tuple(links)
        self.links = tuple(links)
        self._snapshot = run = session.view(lambda s: s.compiled)
        self.waiting = run if run is not None and is_large(run) and not is_indexed(run) else None
        if run is not None and self.waiting is None:
            self.chain = closure(run, self.links)
        elif not again:
            self.chain = frozenset(self.links)

    def follow(self, session: Session) -> bool:
        """Keep the selection while the session grows; returns whether the chain changed, or will."""
        if not self.links or session.view(lambda s: s.compiled) is self._snapshot:
            return False
        before = self.chain
        self.select(self.links, session)
        return self.chain != before or self.waiting is not None

    def light(self, panes: Iterable[Pane]) -> None:
        """Show the chain in these panes."""
        for pane in panes:
            pane.light(self.chain)

    def next_break(self, by: int, session: Session) -> bool:
        """Select the next graph break, round the end; returns whether there is one."""
        snapshot = session.view(lambda s: bool(s.breaks))
        if snapshot is None or not snapshot.breaks:
            return False
        links = [break_link(found) for found in snapshot.breaks]
        here = next((i for i, link in enumerate(links) if link in self.links), -1 if by > 0 else 0)
        found = snapshot.breaks[(here + by) % len(links)]
        place = (line_link(found.location),) if found.location else ()
        self.select((break_link(found), *place), session)
        return True
