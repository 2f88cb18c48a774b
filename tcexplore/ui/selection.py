"""What the person selected, and the same thing in every pane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tcexplore.session import Session, Snapshot
from tcexplore.session.links import Link, break_link, closure, line_link
from tcexplore.ui.panes.pane import Pane


class Selection:
    """The selected links, and all that is on the chain through them in the run in view."""

    def __init__(self) -> None:
        self.links: tuple[Link, ...] = ()
        self.chain: frozenset[Link] = frozenset()
        self._snapshot: Snapshot | None = None
        self._prepared = 0

    def ready(self, session: Session) -> bool:
        """Whether the run in view is whole and the first selection in it has not been prepared for."""
        shown = session.shown
        return shown is not None and shown.complete and shown.run != self._prepared

    def prepare(self, session: Session) -> None:
        """Index the run in view: 60 ms for 10 000 nodes, which no key should wait for."""
        if session.shown is not None:
            self._prepared = session.shown.run
            closure(session.shown, [Link("line", "", "")])

    def select(self, links: Sequence[Link], session: Session) -> None:
        """Select these links in the newest run that was compiled."""
        self.links = tuple(links)
        self._snapshot = session.view(lambda s: s.compiled)
        self.chain = closure(self._snapshot, self.links) if self._snapshot else frozenset(self.links)

    def follow(self, session: Session) -> bool:
        """Keep the selection while the session grows; returns whether the chain changed."""
        if not self.links or session.view(lambda s: s.compiled) is self._snapshot:
            return False
        before = self.chain
        self.select(self.links, session)
        return self.chain != before

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
