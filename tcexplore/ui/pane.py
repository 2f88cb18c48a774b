"""The widget of a pane: a frame with a title around the rows of one of its views."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.reactive import var
from textual.strip import Strip

from tcexplore.documents.document import Document, message, start, with_choices
from tcexplore.session import Session
from tcexplore.session.links import Link
from tcexplore.ui.background_task import BackgroundTask, is_large
from tcexplore.ui.messages import CursorMoved, HitReached, Steered
from tcexplore.ui.pane_table import PaneSpec, View, heading, view_at
from tcexplore.ui.row_view import RowView, guarded

if TYPE_CHECKING:
    from tcexplore.session import Snapshot

_WIDE = ("line", "kernel")
"""Kinds of links that stand for many rows: they don't say where in a view the user was."""

_TITLE_AT = 3
"""Column of a title's first letter in a frame."""

_CORNERS = 4
"""Cells of the frame's top that its title cannot use."""

_FEW = 16
"""Objects of a tuple that are compared one by one: some fields are made anew for each read."""


class RecordedSnapshot:
    """A snapshot that records which of its fields a document reads: it is built again only if one of them changes."""

    def __init__(self, snapshot: Snapshot, settling: Sequence[str]) -> None:
        """Until a run is complete, the fields `settling` do not count."""
        self._snapshot = snapshot
        self._settling = settling
        self._read: dict[tuple[str, str], Any] = {}
        """Values by place and name: a place is empty for the snapshot, or a target for its code, `*` for the one in
        view."""

    def __getattr__(self, name: str) -> Any:
        if name == "code":
            return _RecordedCode(self, "*")
        if name == "code_for":
            return partial(_RecordedCode, self)
        method = getattr(type(self._snapshot), name)
        return MethodType(method, self) if isinstance(method, FunctionType) else self.read("", name)

    def read(self, place: str, name: str) -> Any:
        """Record that a field is read, and return it."""
        return self._read.setdefault((place, name), _value(self._snapshot, place, name))

    def moves_to(self, snapshot: Snapshot) -> bool:
        """Return whether all that was read is the same in another snapshot; if so, later reads are of that one."""
        settling = () if snapshot.complete or snapshot.failure else self._settling
        for (place, name), value in self._read.items() if snapshot is not self._snapshot else ():
            if name not in settling and not _equal(value, _value(snapshot, place, name)):
                return False
        self._snapshot = snapshot
        return True


class _RecordedCode:
    """The code of a recorded snapshot for one target."""

    def __init__(self, snapshot: RecordedSnapshot, target: str) -> None:
        self._recorded, self._place = snapshot, target

    def __getattr__(self, name: str) -> Any:
        return self._recorded.read(self._place, name)


def _value(snapshot: Snapshot, place: str, name: str) -> Any:
    if place:
        return getattr(snapshot.code if place == "*" else snapshot.code_for(place), name)
    return getattr(snapshot, name)


def _equal(a: Any, b: Any) -> bool:
    """Return whether two values are the same object, the same text or number, or tuples of the same few objects."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) <= _FEW:
        return all(map(operator.is_, a, b))
    return a is b or (isinstance(a, str | int | float) and a == b)


class _Built(NamedTuple):
    """A document of a view, and its inputs."""

    document: Document
    recorded: RecordedSnapshot
    key: tuple[object, ...]
    view: View
    snapshot: Snapshot
    old: bool
    """Whether the snapshot is not the one in view."""


def _build(build: Callable[[], Document], *built_from: object) -> _Built:
    return _Built(guarded(build), *built_from)  # type: ignore[arg-type]


class Pane(Container):
    """Shows the session's run in one of the views of `spec`."""

    @dataclass
    class Changed(Message):
        """The user turned the view, or opened or closed a fold."""

        pane: str

    @dataclass
    class Shown(Message):
        """The pane has come into view, or got another size."""

        pane: str

    single: var[bool] = var(False, init=False)
    """Whether it is the only pane in view, with a line above it instead of a frame."""
    note: var[str] = var("", init=False)
    """A note of the screen in the title."""
    late: var[bool] = var(False)
    """Whether to mark a document of an older run, rather than wait for that of the newest run."""
    hit: var[str] = var("", init=False)
    """Which hit of the selection the cursor was put on."""

    def __init__(self, spec: PaneSpec) -> None:
        super().__init__(id=spec.id)
        self.spec = spec
        self.view = spec.views[0]
        self.rows = RowView()
        self.toggled: frozenset[str] = frozenset()
        """Fold groups that the user opened or closed."""
        self._session = Session()
        self._hidden_width = 0
        """Width in cells to build a document for while the pane is hidden; 0 for none."""
        self._key: tuple[object, ...] = ()
        """The inputs of the document that is shown or being built, besides the run's fields."""
        self._recorded: RecordedSnapshot | None = None
        """The fields that the document reads; None while it is being built."""
        self._documents: dict[str, _Built] = {}
        """The last document of each view, so that turning back to a view costs nothing."""
        self._cursors: dict[str, int] = {}
        self._restored_cursor: int | None = None
        """The row for the cursor in the next document, remembered from that view."""
        self._lost_links: tuple[Link, ...] = ()
        """The selection before the user turned the views, for views that don't have all of it."""
        self._reveal_next: frozenset[Link] | None = None
        """Links to scroll to in the next document, after a change of view or size."""
        self._opened_for: tuple[Link, ...] = ()
        """Links for which folds were opened, until the user moves: a pane that is resized later reveals them again."""
        self._opened_file = ""
        """The file whose document was scrolled to its start row."""
        self._titled: tuple[View, ...] = ()
        """The views in the title."""
        self._only_title_changes = False
        self._steered = False
        """Whether the next document is shown because the user moved along its axis."""
        self._old_run = ""
        """Label of the older run that the document shows; empty if it is the run in view."""
        self._old_note = ""
        self._background: BackgroundTask[_Built] = BackgroundTask(self._show_document)

    def compose(self) -> ComposeResult:
        yield self.rows

    def on_mount(self) -> None:
        if not self._key:
            self.rows.show(message("Waiting for the first run."))
            self._update_title()

    def show_waiting(self, lines: tuple[str, ...]) -> None:
        """Show what has to happen before the first run, unless there is a run."""
        if not self._key:
            self.rows.show(message(*lines))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the frame. All lines between its top and its bottom are the same, so one of them is rendered."""
        last = self.outer_size.height - 1
        own = {y if y in (0, last) else 1 for y in crop.line_range}
        strips = {y: super(Pane, self).render_lines(Region(crop.x, y, crop.width, 1))[0] for y in sorted(own)}
        return [strips[y if y in (0, last) else 1] for y in crop.line_range]

    # ---- the session

    def show_session(self, session: Session) -> None:
        """Show the session's run in view; a hidden pane catches up when it comes into view again."""
        self._session, view = session, self.view
        width = self.rows.text_width if self.display and self.rows.size else self._hidden_width
        snapshot = session.view(view.has)
        if snapshot is None or not width:
            return
        old = snapshot is not session.shown
        key = (view, snapshot.run, self.toggled, width)
        if _same(key, self._key) and (self._recorded is None or self._recorded.moves_to(snapshot)):
            if self._background.is_idle:
                self._mark_old(snapshot.label if old else "")
                if self.listed != self._titled:
                    self._update_title()
            return
        self._key, self._recorded = key, None
        built = self._documents.get(view.name)
        if built is not None and _same(key, built.key) and built.recorded.moves_to(snapshot):
            self._show_document(built._replace(snapshot=snapshot, old=old))
            return
        recorded: Any = RecordedSnapshot(snapshot, view.settling)
        build = partial(_build, partial(view.build, recorded, self.toggled, width), recorded, key, view, snapshot, old)
        if not is_large(snapshot):
            self._show_document(build())
        elif self._background.request(build):
            self.run_worker(self._background.run(), group="build", exit_on_error=False)

    def _show_document(self, built: _Built) -> None:
        """Show a document, unless the user has turned to another view or run in the meantime."""
        document, recorded, key, view, snapshot, old = built
        self._documents[view.name] = built
        newer_follows = self._background.has_request and (view, snapshot.run) == self._key[:2]
        if _same(key, self._key):
            self._recorded = recorded
        elif not newer_follows:
            return
        self.hit = ""
        opens = self._opened_file != snapshot.file
        self.rows.show(document, self._restored_cursor, start(document) if opens else None)
        self._restored_cursor = None
        if self._steered and (row := self.rows.cursor_row) is not None:
            self._steered = False
            self.rows.post_message(CursorMoved(row))
        # Until the first run of a file is complete, the row to open at may change.
        self._opened_file = snapshot.file if snapshot.complete or not opens else ""
        self._mark_old(snapshot.label if old else "")
        self._update_title()
        self._reveal()
        if self._recorded is recorded and self._session.view(view.has) is not snapshot:
            self.show_session(self._session)  # the run has gone on meanwhile

    def watch_late(self) -> None:
        self._mark_old(self._old_run)

    def _mark_old(self, run: str) -> None:
        """Mark the document as that of an older run, if it is `late`; an empty label removes the mark."""
        self._old_run = run
        marked = bool(run) and (self.late or self.rows.faded)
        if marked != self.rows.faded:
            self.rows.faded = marked
            self.set_class(marked, "-old")
        note = f"old: {run}" if marked else ""
        if note != self._old_note:
            self._old_note = note
            self._update_title()

    @property
    def listed(self) -> tuple[View, ...]:
        """The views that have something to say of the run in the pane."""
        return self.spec.listed(self.view, self._session.view(self.view.has))

    def next_view(self, by: int) -> View:
        """Return the view `by` places after the current one."""
        return self.spec.next_view(self.view, by, self._session.view(self.view.has))

    def build_hidden(self, width: int) -> None:
        """Bring the document up to date for a width in cells, also in a hidden pane."""
        self._hidden_width = width
        self.show_session(self._session)
        self._hidden_width = 0

    async def ready(self) -> None:
        """Wait until the requested document is shown."""
        await self._background.wait()

    def _show_and_reveal(self, near: Iterable[Link] = ()) -> None:
        """Show the session, and scroll to highlighted rows once it is shown."""
        self._reveal_next = frozenset(near)
        self.show_session(self._session)
        if self._background.is_idle:
            self._reveal()

    def _reveal(self) -> None:
        if self._reveal_next is not None:
            self.rows.reveal(self._reveal_next)
            self._reveal_next = None

    def on_show(self) -> None:
        self._show_and_reveal(self._opened_for)
        self.post_message(self.Shown(self.spec.id))

    def on_resize(self) -> None:
        self._show_and_reveal(self._opened_for)
        self._update_title()
        self.post_message(self.Shown(self.spec.id))

    # ---- views, folds, highlights

    def toggle(self, fold: str) -> None:
        """Open or close a fold group."""
        self.toggled = with_choices(self.toggled, [fold]) if "=" in fold else self.toggled ^ {fold}
        self.show_session(self._session)
        self.post_message(self.Changed(self.spec.id))

    def on_steered(self, message: Steered) -> None:
        """Show the document as the user zoomed it, and select what is at its mark now."""
        message.stop()
        self.toggled = with_choices(self.toggled, message.choices)
        self._steered = True
        self.show_session(self._session)

    def show_view(self, view: View, selected: Sequence[Link] = ()) -> None:
        """Show the run in another view, scrolled to the selection, with folds that hide it open."""
        if view is self.view:
            return
        self._opened_for = ()
        self._cursors[self.view.name] = self.rows.cursor
        self._restored_cursor = self._cursors.get(view.name, 0)
        links = self.rows.highlighted_cursor
        near = [link for link in links if link.kind not in _WIDE] or self._lost_links
        self._lost_links = selected = (*selected, *links, *self._lost_links)
        self.view = view
        snapshot = self._session.view(view.has)
        if snapshot is not None and (folds := view.opens(snapshot, selected)):
            self.toggled |= folds
        self._show_and_reveal([link for link in near if link.kind not in _WIDE])
        self.post_message(self.Changed(self.spec.id))

    def leave_empty_view(self) -> None:
        """Show the first view in place of one with nothing to say of the run, as of code for another target."""
        if self.view.listed_with and not self.view.is_listed(self._session.view(self.view.has)):
            self.show_view(self.spec.views[0])

    def open_folds(self, folds: frozenset[str], near: Sequence[Link], closing: frozenset[str] = frozenset()) -> None:
        """Open folds, close others, and scroll to the first row of these links."""
        self.toggled = self.toggled - closing | folds
        self._opened_for = tuple(near)
        self._show_and_reveal(near)
        self.post_message(self.Changed(self.spec.id))

    def highlight(self, links: frozenset[Link]) -> None:
        """Highlight the rows that stand for one of the links."""
        if links != self.rows.highlighted:
            self.rows.highlighted = links
            self.hit = ""

    def on_cursor_moved(self) -> None:
        self._lost_links = self._opened_for = ()
        self.hit = ""

    def on_hit_reached(self, message: HitReached) -> None:
        self._lost_links = self._opened_for = ()
        self.hit = message.label

    # ---- title

    def on_click(self, event: events.Click) -> None:
        """Show the view whose name in the title was clicked."""
        if event.widget is self and event.y == 0 and isinstance(self.border_title, str):
            at = event.x - (_TITLE_AT if not self.single else _TITLE_AT - 1)
            if (view := view_at(self.spec, Content.from_markup(self.border_title).plain, at)) is not None:
                self.show_view(view)

    def watch_single(self) -> None:
        self._update_title()

    def watch_note(self) -> None:
        self._update_title()

    def watch_hit(self) -> None:
        self._update_title()

    def _update_title(self) -> None:
        summary = "" if self.hit else self.rows.document.title
        room = self.size.width - _CORNERS
        self._titled = self.listed
        title = heading(self.spec, self.view, summary, (self.hit, self.note, self._old_note), room, self._titled)
        if self.single:
            title = " " + title + " "
        if title.markup != self.border_title:
            self._only_title_changes = True
            self.border_title = title
            self._only_title_changes = False

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Repaint, but only the line of the title if nothing else changes."""
        if self._only_title_changes:
            offset = self.content_offset
            regions = (Region(-offset.x, -offset.y, self.outer_size.width, 1),)
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)


def _same(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
