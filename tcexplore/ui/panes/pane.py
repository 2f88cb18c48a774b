"""The widget of a pane: a frame with a title around a view that follows the session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from textual.app import ComposeResult
from textual.containers import Container
from textual.reactive import var

from tcexplore.documents.document import Document, start
from tcexplore.documents.document_parts import message
from tcexplore.session import Session, Snapshot
from tcexplore.session.links import Link
from tcexplore.ui.background_task import Later, is_large
from tcexplore.ui.lines.guarded_document import guarded
from tcexplore.ui.lines.search_view import SearchView
from tcexplore.ui.messages import HitReached
from tcexplore.ui.panes.pane_heading import heading
from tcexplore.ui.panes.pane_spec import PaneSpec, View

_WIDE = ("line", "kernel")
"""Kinds of links that say less than one row where the user was."""

_CORNERS = 4
"""Cells of the frame's top that its title cannot take."""


@dataclass(frozen=True, slots=True)
class _Made:
    """A document of a view, what it is made of, and its run; `old` where that is not the one in view."""

    form: View
    made_of: tuple[object, ...]
    document: Document
    snapshot: Snapshot
    old: bool


def _make(
    form: View, made_of: tuple[object, ...], snapshot: Snapshot, toggled: frozenset[str], width: int, old: bool
) -> _Made:
    return _Made(form, made_of, guarded(partial(form.build, snapshot, toggled, width)), snapshot, old)


class Pane(Container):
    """Shows one of the views in `spec` of the run in view."""

    alone: var[bool] = var(False)
    """Whether it is the only pane in view, with a line above it instead of a frame."""
    note: var[str] = var("")
    """A word of the screen's in the title."""

    hit: var[str] = var("")
    """Which hit of the selection the cursor was put on."""

    def __init__(self, spec: PaneSpec) -> None:
        super().__init__(id=spec.id)
        self.spec = spec
        self.view = SearchView()
        self.form = spec.views[0]
        self.toggled: frozenset[str] = frozenset()
        self._cursors: dict[str, int] = {}
        self._back_at: int | None = None
        """Where the cursor goes in the next document, as it was in that view before."""
        self._passing: tuple[Link, ...] = ()
        """What was selected when the user began to go through the views, for those that it is not in."""
        self._age = ""
        self._session = Session()
        self._made_of: tuple[object, ...] = ()
        self._documents: dict[str, tuple[tuple[object, ...], Document]] = {}
        """The last document of each view, and what it is made of: going back to a view costs nothing."""
        self._later: Later[_Made] = Later(self._put)
        self._turning: frozenset[Link] | None = None
        """What is to be brought into view with the next document, where that was just turned to."""
        self._opened = ""
        """The file whose document was put where it opens."""

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        if not self._made_of:
            self.view.show(message("Waiting for the first run."))
            self._entitle()

    # ---- following the session

    def follow(self, session: Session, width: int = 0) -> None:
        """Show the session's run in view; out of view, catch up when the pane comes into view again.

        The document is built again only if what it is made of changed. With a `width` it is brought up to date out of
        view, too, for rows of that many cells.
        """
        self._session = session
        snapshot = session.view(self.form.has)
        room = self.view.text_width if self.display and self.view.size else width
        if snapshot is not None and room:
            self._bring(snapshot, room, old=snapshot is not session.shown)

    def _bring(self, snapshot: Snapshot, width: int, *, old: bool) -> None:
        form = self.form
        waiting = () if form.has(snapshot) else (snapshot.phase, snapshot.phase_graph)
        made_of = (form, snapshot.run, old, self.toggled, width, *waiting, *form.about(snapshot))
        if _same(made_of, self._made_of):
            return
        self._made_of = made_of
        before, document = self._documents.get(form.name, ((), None))
        if document is not None and _same(made_of, before):
            self._put(_Made(form, made_of, document, snapshot, old))
            return
        make = partial(_make, form, made_of, snapshot, self.toggled, width, old)
        if is_large(snapshot):
            if self._later.want(make):
                self.run_worker(self._later.work(), group="make", exit_on_error=False)
        else:
            self._put(make())

    def _put(self, made: _Made) -> None:
        """Show a document, unless the user has turned to another view or run while it was made."""
        self._documents[made.form.name] = made.made_of, made.document
        newest = _same(made.made_of, self._made_of)
        on_the_way = self._later.more and (made.form, made.snapshot.run) == self._made_of[:2]
        if not newest and not on_the_way:
            return
        self.hit = ""
        self.view.show(made.document, self._back_at)
        self._back_at = None
        self._open(made.snapshot)
        self._age = f"old: run {made.snapshot.run}" if made.old else ""
        self._entitle()
        self.view.faded = made.old
        self.set_class(made.old, "-old")
        self._arrive()

    def _turn(self, near: Sequence[Link] = ()) -> None:
        """Follow the session, and bring what is lit into view once that is shown."""
        self._turning = frozenset(near)
        self.follow(self._session)
        if self._later.is_idle:
            self._arrive()

    def _arrive(self) -> None:
        if self._turning is not None:
            self.view.reveal(self._turning)
            self._turning = None

    async def ready(self) -> None:
        """Until the document that was last asked for is shown."""
        await self._later.idle()

    def _open(self, snapshot: Snapshot) -> None:
        """Until the first run of a file is complete, what matters in it may turn out to stand somewhere else."""
        if self._opened != snapshot.file:
            self.view.open_at(start(self.view.document))
            self._opened = snapshot.file if snapshot.complete else ""

    def on_show(self) -> None:
        self._turn()

    def on_resize(self) -> None:
        self._turn()
        self._entitle()

    # ---- views and folds

    def toggle(self, fold: str) -> None:
        """Open or close a fold group."""
        self.toggled ^= {fold}
        self.follow(self._session)

    def show_view(self, view: View, selected: Sequence[Link] = ()) -> None:
        """Show the run in another view; what is selected stays in sight, also where a fold would hide it."""
        if view is self.form:
            return
        self._cursors[self.form.name] = self.view.cursor
        self._back_at = self._cursors.get(view.name, 0)
        here = self.view.lit_cursor
        near = [link for link in here if link.kind not in _WIDE] or self._passing
        self._passing = selected = (*selected, *here, *self._passing)
        self.form = view
        snapshot = self._session.view(view.has)
        if snapshot is not None and (folds := view.opens(snapshot, selected)):
            self.toggled |= folds
        self._turn([link for link in near if link.kind not in _WIDE])

    def on_cursor_moved(self) -> None:
        self._passing = ()
        self.hit = ""

    def light(self, chain: frozenset[Link]) -> None:
        """Light the rows that stand for one of the links."""
        if chain != self.view.lit:
            self.view.lit = chain
            self.hit = ""

    def on_hit_reached(self, message: HitReached) -> None:
        self.hit = message.words
        self._passing = ()

    # ---- the frame

    def watch_alone(self) -> None:
        self._entitle()

    def watch_note(self) -> None:
        self._entitle()

    def watch_hit(self) -> None:
        self._entitle()

    def _entitle(self) -> None:
        edge = " " if self.alone else ""
        told = "" if self.hit else self.view.document.title
        room = self.size.width - _CORNERS
        made = heading(self.spec, self.form, told, (self.hit, self.note, self._age), room)
        title = edge + made + edge
        if title.markup != self.border_title:
            self.border_title = title


def _same(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
