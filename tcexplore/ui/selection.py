"""The user's selection, and everything linked to it."""

from __future__ import annotations

from collections.abc import Sequence

from tcexplore.session import Session, Snapshot
from tcexplore.session.links import Link, break_link, closure, is_indexed, line_links
from tcexplore.ui.background_task import is_large


def index_links(run: Snapshot) -> None:
    """Index the links of a run, so that a selection in it is quick."""
    closure(run, [Link("line", "", "")])


def prefetch(session: Session) -> None:
    """Index the run in view, and compare its code with that of the run that it would be compared with.

    That takes a fifth of a second for 10,000 nodes and 50,000 lines: call it in a thread.
    """
    from tcexplore.documents.diff.diff_sections import compare_code
    from tcexplore.documents.graph.decomposition_view import decompose_run

    shown = session.shown
    if shown is None:
        return
    index_links(shown)
    decompose_run(shown)
    baseline = session.baseline_of(shown)
    if baseline is not None:
        compare_code(baseline, shown)


class Selection:
    """The selected links, and all links connected to them in the run in view."""

    def __init__(self) -> None:
        self.links: tuple[Link, ...] = ()
        self.chain: frozenset[Link] = frozenset()
        self.unindexed: Snapshot | None = None
        """The large run to call `index_links` for; then the selection is to be made again."""
        self._snapshot: Snapshot | None = None

    def select(self, links: Sequence[Link], session: Session) -> None:
        """Select these links in the newest compiled run.

        A large run highlights only the links themselves until it is indexed; the same selection keeps its old chain.
        """
        unchanged = self.links == tuple(links)
        self.links = tuple(links)
        self._snapshot = run = session.view(lambda s: s.compiled)
        self.unindexed = run if run is not None and is_large(run) and not is_indexed(run) else None
        if run is not None and self.unindexed is None:
            self.chain = closure(run, self.links)
        elif not unchanged:
            self.chain = frozenset(self.links)

    def update(self, session: Session) -> bool:
        """Make the selection again in a session that has grown; return whether the chain changes."""
        if not self.links or session.view(lambda s: s.compiled) is self._snapshot:
            return False
        before = self.chain
        self.select(self.links, session)
        return self.chain != before or self.unindexed is not None

    def next_break(self, by: int, session: Session) -> bool:
        """Select the next graph break, cyclically; return whether there is one."""
        snapshot = session.view(lambda s: bool(s.breaks))
        if snapshot is None or not snapshot.breaks:
            return False
        links = [break_link(graph_break) for graph_break in snapshot.breaks]
        current = next((i for i, link in enumerate(links) if link in self.links), -1 if by > 0 else 0)
        graph_break = snapshot.breaks[(current + by) % len(links)]
        line = line_links(graph_break.location)
        self.select((break_link(graph_break), *line), session)
        return True
