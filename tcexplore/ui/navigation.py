"""The user's selection and what is linked to it, what a row leads to, and the places jumped from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tcexplore.documents.document import chapters
from tcexplore.keymap import hint
from tcexplore.session import Session
from tcexplore.session.links import Link, break_link, closure, is_indexed, kernel_link, line_link, line_links
from tcexplore.session.ranked_breaks import rank_breaks
from tcexplore.ui.background_task import is_large
from tcexplore.ui.pane import Pane
from tcexplore.ui.pane_grid import PaneGrid
from tcexplore.ui.row_painter import MARKED
from tcexplore.ui.row_view import RowView

if TYPE_CHECKING:
    from tcexplore.events import GraphBreak, Kernel  # not imported before the first frame
    from tcexplore.session import Snapshot
    from tcexplore.ui.screens.reading_screen import AnswerScreen


def index_links(run: Snapshot) -> None:
    """Index the links of a run, so that a selection in it is quick."""
    closure(run, [Link("line", "", "")])


def prefetch(session: Session) -> None:
    """Index the run in view, and compare its code with that of the run that it would be compared with.

    That takes a fifth of a second for 10,000 nodes and 50,000 lines: call it in a thread.
    """
    from tcexplore.documents.diff_view import compare_code
    from tcexplore.documents.graph.decomposition_view import decompose_run

    shown = session.shown
    if shown is None:
        return
    index_links(shown)
    decompose_run(shown)
    baseline = session.baseline_of(shown)
    before = session.snapshot_of(baseline.run) if baseline is not None else None
    if before is not None:
        compare_code(before, shown)


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
        """Select the next graph break in the order of the breaks pane, cyclically; return whether there is one."""
        snapshot = session.view(lambda s: bool(s.breaks))
        if snapshot is None or not snapshot.breaks:
            return False
        breaks = [ranked.graph_break for ranked in rank_breaks(snapshot)]
        links = [break_link(graph_break) for graph_break in breaks]
        current = next((i for i, link in enumerate(links) if link in self.links), -1 if by > 0 else 0)
        graph_break = breaks[(current + by) % len(links)]
        line = line_links(graph_break.location)
        self.select((break_link(graph_break), *line), session)
        return True


LIMIT = 200
"""Positions in memory; older ones are dropped."""


class Position(NamedTuple):
    """A row of a view of a pane, with the links that it selects."""

    pane: str
    row: int
    view: str = ""
    links: tuple[Link, ...] = ()


class JumpList(NamedTuple):
    """Positions before and after the current one."""

    behind: tuple[Position, ...] = ()
    ahead: tuple[Position, ...] = ()

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


def no_kernel() -> str:
    """Return why no kernel can be marked."""
    where = f"the code pane ({hint('code-pane')})"
    return f"Why are two kernels not fused? {_how('a kernel', where)}"


def _no_entry() -> str:
    where = f"the entries view ({hint('next-view')}) of the guards pane"
    return f"How do two cache entries differ? {_how('an entry', where)}"


def _how(kind: str, place: str) -> str:
    return f"Put the cursor on {kind} in {place} and press {hint('compare')}, then on another."


def _marked(name: str) -> str:
    return f"{name} is marked: go to another and press {hint('compare')}."


def kernel_at_cursor(view: RowView, snapshot: Snapshot) -> Kernel | None:
    """Return the kernel of the row under the cursor, or of the nearest row above that has one."""
    return kernel_of(snapshot, _link_at_cursor(view, ("kernel",)))


def kernel_of(snapshot: Snapshot, link: Link | None) -> Kernel | None:
    """Return the kernel that a link stands for, if this run has it."""
    return next((kernel for kernel in snapshot.code.kernels if kernel_link(kernel) == link), None)


def break_of(snapshot: Snapshot, links: Sequence[Link]) -> GraphBreak | None:
    """Return the break that these links stand for, else one on their line, else the only one of the run."""
    by_link = {break_link(graph_break): graph_break for graph_break in snapshot.breaks}
    by_line = {line_link(each.location): each for each in reversed(snapshot.breaks) if each.location}
    only = snapshot.breaks[0] if len(snapshot.breaks) == 1 else None
    return next((breaks[link] for breaks in (by_link, by_line) for link in links if link in breaks), only)


def compare_kernels(pane: Pane, snapshot: Snapshot) -> AnswerScreen | str:
    """Return a screen on why the marked kernel and the one under the cursor were not fused.

    Without a mark, mark the one under the cursor; on the marked one, remove the mark. Then return a message.
    """
    marked, other = kernel_of(snapshot, pane.rows.marked), kernel_at_cursor(pane.rows, snapshot)
    if other is None:
        return no_kernel()
    from tcexplore.documents.labels import labels

    name = labels(snapshot).kernel[kernel_link(other)].name
    if marked is None or marked is other:
        pane.rows.marked = None if marked is other else kernel_link(other)
        pane.note = "" if marked is other else f"{MARKED} {name}"
        return f"{name} is no longer marked." if marked is other else _marked(name)
    from tcexplore.documents.code.fusion_view import fusion_reasons_document
    from tcexplore.ui.screens.reading_screen import AnswerScreen

    return AnswerScreen(
        "Why are they not fused?", ("code", "5 Code"), partial(fusion_reasons_document, snapshot, marked, other)
    )


def compare_entries(pane: Pane, session: Session) -> AnswerScreen | str:
    """Return a screen on how the guards of the marked entry and the one under the cursor differ.

    Without a mark, mark the one under the cursor; on the marked one, remove the mark. Then return a message.
    """
    snapshot = session.view(pane.view.has)
    marked, other = pane.note.removeprefix(f"{MARKED} "), _entry_at_cursor(pane.rows)
    if snapshot is None or not other:
        return _no_entry()
    if not marked or marked == other:
        pane.note = "" if marked else f"{MARKED} {other}"
        return f"{other} is no longer marked." if marked else _marked(other)
    from tcexplore.documents.guards.cache_entries_view import guard_diff_document
    from tcexplore.ui.screens.reading_screen import AnswerScreen

    build = partial(guard_diff_document, snapshot, marked, other)
    return AnswerScreen(f"Guards of {marked} and {other}", ("guards", "4 Guards"), build)


def _entry_at_cursor(view: RowView) -> str:
    """Return the compile id of the entry under the cursor, or of the nearest row above that has one."""
    link = _link_at_cursor(view, ("entry", "guard"))
    return link.where if link is not None else ""


def _link_at_cursor(view: RowView, kinds: Collection[str]) -> Link | None:
    for index in range(view.cursor, -1, -1) if len(view.document) else ():
        link = next((link for link in view.document.row(index).links if link.kind in kinds), None)
        if link is not None:
            return link
    return None
