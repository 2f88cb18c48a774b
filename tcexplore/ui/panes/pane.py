"""The widget of a pane: a frame with a title around a view that follows the session."""

from __future__ import annotations

from functools import partial

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.reactive import var

from tcexplore.session import Session
from tcexplore.ui.guarded import guarded
from tcexplore.ui.panes.spec import PaneSpec
from tcexplore.ui.search_view import SearchView
from tcexplore.ui.strips import flat
from tcexplore.ui.text_document import message


class Pane(Container):
    """Shows what `spec` says of the run in view."""

    alone: var[bool] = var(False)
    """Whether it is the only pane in view, with a line above it instead of a frame."""

    def __init__(self, spec: PaneSpec) -> None:
        super().__init__(id=spec.id)
        self.spec = spec
        self.view = SearchView()
        self.toggled: frozenset[str] = frozenset()
        self.build = spec.build
        self._age = ""
        self._session = Session()
        self._made_of: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        if not self._made_of:
            self.view.show(message("Waiting for the first run."))
            self._entitle()

    def follow(self, session: Session) -> None:
        """Show the session's run in view; out of view, catch up when the pane comes into view again.

        The document is built again only if what it is made of changed.
        """
        self._session = session
        snapshot = session.view(self.spec.has)
        if snapshot is None or not self.display or not self.view.size:
            return
        old = snapshot is not session.shown
        width = self.view.text_width
        waiting = () if self.spec.has(snapshot) else (snapshot.phase, snapshot.phase_graph)
        made_of = (self.build, snapshot.run, old, self.toggled, width, *waiting, *self.spec.about(snapshot))
        if len(made_of) == len(self._made_of) and all(a is b for a, b in zip(made_of, self._made_of, strict=True)):
            return
        self._made_of = made_of
        self.view.show(guarded(partial(self.build, snapshot, self.toggled, width)))
        self._age = f" ─ old: run {snapshot.run}" if old else ""
        self._entitle()
        self.view.faded = old
        self.set_class(old, "-old")

    def on_show(self) -> None:
        self._catch_up()

    def on_resize(self) -> None:
        self._catch_up()

    def _catch_up(self) -> None:
        self.follow(self._session)
        self.view.reveal()

    def toggle(self, fold: str) -> None:
        """Open or close a fold group."""
        self.toggled ^= {fold}
        self.follow(self._session)

    def change_form(self) -> bool:
        """Show the same in the pane's other form, or in its first again; returns whether there is one."""
        if self.spec.other is None:
            return False
        self.build = self.spec.other if self.build is self.spec.build else self.spec.build
        self.follow(self._session)
        return True

    def watch_alone(self) -> None:
        self._entitle()

    def _entitle(self) -> None:
        told = f" ─ {flat(self.view.document.title)}" if self.view.document.title else ""
        edge = " " if self.alone else ""
        # Content: no markup is read in it.
        title = Content.assemble(edge, (str(self.spec.number), "bold"), f" {self.spec.title}{told}{self._age}", edge)
        if title.markup != self.border_title:
            self.border_title = title
