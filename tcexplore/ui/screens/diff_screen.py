"""Two runs compared: the one in view with its base, over the whole screen."""

from __future__ import annotations

from functools import partial

from textual.app import ComposeResult

from tcexplore.documents.document import Document, Row
from tcexplore.documents.document_parts import message
from tcexplore.session import Session, Snapshot, changes, summarize
from tcexplore.ui.actions import bindings
from tcexplore.ui.background_task import Later, is_large
from tcexplore.ui.footer import footer
from tcexplore.ui.header import compare_line, history_line
from tcexplore.ui.lines.guarded_document import guarded
from tcexplore.ui.lines.row_line import RowLine
from tcexplore.ui.messages import RowEntered
from tcexplore.ui.screens.overlay_screen import OverScreen

_Made = tuple[tuple[object, ...], Document]
"""What the rows are made of, and they."""


class DiffScreen(OverScreen):
    """Follows the app's session as the panes do: the next save is compared as soon as it is compiled."""

    CSS_PATH = "diff.tcss"
    BINDINGS = bindings("diff")
    SCOPES = (*OverScreen.SCOPES, "diff")

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._other: int | None = None
        """The run chosen here to compare with, instead of the session's own choice."""
        self._toggled: frozenset[str] = frozenset()
        self._made_of: tuple[object, ...] = ()
        self._later: Later[_Made] = Later(self._put)
        self._title = RowLine(compare_line(None, None, None), id="title")
        self._history = RowLine(history_line(session), id="history")

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._view
        yield self._history
        yield RowLine(footer(self.SCOPES), id="footer")

    @property
    def page(self) -> tuple[str, str]:
        return "diff", "Compare"

    def on_mount(self) -> None:
        self.watch(self.app, "session", self._follow, init=False)

    # ---- the two runs

    @property
    def _after(self) -> Snapshot | None:
        """The run in view, once there is enough of it to compare."""
        return self._session.view(lambda s: s.complete)

    @property
    def _before(self) -> Snapshot | None:
        after = self._after
        chosen = (s for s in self._bases if s.run == self._other)
        return next(chosen, None) or (self._session.baseline_of(after) if after else None)

    @property
    def _bases(self) -> list[Snapshot]:
        """All runs that the one in view can be compared with."""
        after = self._after
        return [s for s in self._session.runs if after is not None and s.run != after.run and s.complete]

    def action_other_base(self, by: int) -> None:
        before, bases = self._before, self._bases
        at = next((i for i, s in enumerate(bases) if s is before), None)
        if at is None or not 0 <= at + by < len(bases):
            self.say("There is no other run to compare with on that side.")
            return
        self._other = bases[at + by].run
        self._show()

    # ---- the rows

    def _follow(self, session: Session) -> None:
        self._session = session
        self._show()

    def _show(self) -> None:
        before, after, width = self._before, self._after, self._view.text_width
        self._history.update(history_line(self._session))
        made_of = (*_parts(before), *_parts(after), self._toggled, width, *_figures(before, after))
        if len(made_of) == len(self._made_of) and all(map(_same, made_of, self._made_of)):
            return
        self._made_of = made_of
        self._title.update(compare_line(before, after, self._session.baseline))
        make = partial(_make, made_of, before, after, self._toggled, width)
        if not is_large(before, after):
            self._put(make())
            return
        if not len(self._view.document):
            self._view.show(message("Comparing the two runs …"))
        if self._later.want(make):
            self.run_worker(self._later.work(), group="make", exit_on_error=False)

    def _put(self, made: _Made) -> None:
        """Show the rows, unless something else is to be compared since they were asked for."""
        made_of, document = made
        if made_of is self._made_of:
            self._view.show(document)

    def on_row_entered(self, message: RowEntered) -> None:
        if message.row.fold is not None:
            self._toggled ^= {message.row.fold}
            self._show()

    def action_section(self, by: int) -> None:
        document, here = self._view.document, self._view.cursor
        rows = [i for i in range(len(document)) if _begins_section(document.row(i))]
        further = [i for i in rows if (i - here) * by > 0]
        if rows:
            self._view.move_to((further or rows)[0 if by > 0 else -1])


def _make(
    made_of: tuple[object, ...],
    before: Snapshot | None,
    after: Snapshot | None,
    toggled: frozenset[str],
    width: int,
) -> _Made:
    return made_of, guarded(partial(_build, before, after, toggled, width))


def _build(before: Snapshot | None, after: Snapshot | None, toggled: frozenset[str], width: int) -> Document:
    from tcexplore.documents.diff.diff_view import diff_document

    return diff_document(before, after, toggled, width) if after else message("Waiting for the first run.")


def _begins_section(row: Row) -> bool:
    from tcexplore.documents.diff.diff_view import SECTIONS

    return row.fold in {f"diff {section.name}" for section in SECTIONS}


def _parts(run: Snapshot | None) -> tuple[object, ...]:
    """What of a run is compared: timing goes on, and is compared by its figures."""
    return () if run is None else (run.run, run.graphs, run.breaks, run.guards, run.code.kernels, run.code.wrappers)


def _figures(before: Snapshot | None, after: Snapshot | None) -> tuple[str, ...]:
    return tuple(changes(summarize(before), summarize(after))) if before and after else ()


def _same(a: object, b: object) -> bool:
    return a == b if isinstance(a, str | int | frozenset) else a is b
