"""The differences between two runs: the one in view and its base."""

from __future__ import annotations

import os
from functools import partial

from textual.app import ComposeResult

from tcexplore.documents.document import Document, Row, message
from tcexplore.documents.prose import fitted, piece
from tcexplore.documents.strip import history_row
from tcexplore.session import RunSummary, Session, Snapshot, changes, summarize
from tcexplore.ui.actions import bindings, footer
from tcexplore.ui.background_task import BackgroundTask, is_large
from tcexplore.ui.messages import RowEntered, RunNeeded
from tcexplore.ui.row_line import RowLine
from tcexplore.ui.row_view import guarded
from tcexplore.ui.screens.reading_screen import OverlayScreen

_Built = tuple[tuple[object, ...], Document]
"""A document with its key: what it was built from."""


class DiffScreen(OverlayScreen):
    """Follows the app's session as the panes do: it compares the next save as soon as that is compiled."""

    BINDINGS = bindings("diff")
    SCOPES = (*OverlayScreen.SCOPES, "diff")

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._other: int | None = None
        """The run that the user chose to compare with, instead of the session's choice."""
        self._toggled: frozenset[str] = frozenset()
        self._key: tuple[object, ...] = ()
        self._background: BackgroundTask[_Built] = BackgroundTask(self._show_document)
        self._title = RowLine(partial(_title_row, None, None, None), id="title")
        self._history = RowLine(partial(history_row, session), id="history")

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._view
        yield self._history
        newest = self._session.newest
        yield RowLine(footer(self.SCOPES, trace=newest is not None and bool(newest.trace)), id="footer")

    @property
    def page(self) -> tuple[str, str]:
        return "diff", "Diff"

    def on_mount(self) -> None:
        self.watch(self.app, "session", self._show_session, init=False)

    # ---- the two runs

    @property
    def _after(self) -> Snapshot | None:
        """The run in view, once it is complete enough to compare."""
        return self._session.view(lambda s: s.complete)

    @property
    def _before(self) -> Snapshot | None:
        base = self._base
        return self._session.snapshot_of(base.run) if base is not None else None

    @property
    def _base(self) -> RunSummary | None:
        """Figures of the run to compare with, whose snapshot may be compressed or on disk."""
        after = self._after
        chosen = (summary for summary in self._bases if summary.run == self._other)
        return next(chosen, None) or (self._session.baseline_of(after) if after else None)

    @property
    def _bases(self) -> list[RunSummary]:
        """The runs that the one in view can be compared with."""
        after = self._after
        return [s for s in self._session.summaries if after is not None and s.run != after.run and s.complete]

    def action_other_base(self, by: int) -> None:
        base, numbers = self._base, [summary.run for summary in self._bases]
        at = numbers.index(base.run) if base is not None and base.run in numbers else None
        if at is None or not 0 <= at + by < len(numbers):
            self.say("No other run to compare with in that direction.")
            return
        self._other = numbers[at + by]
        self._show()

    # ---- the rows

    def _show_session(self, session: Session) -> None:
        self._session = session
        self._show()

    def _show(self) -> None:
        before, after, width = self._before, self._after, self._view.text_width
        self._history.update(partial(history_row, self._session))
        base = self._base
        if base is not None and before is None:
            self._title.update(partial(_title_row, base, after, self._session.baseline))
            self._key = ()
            self._view.show(message(f"Reading the {base.label} …" if base.past else f"Reading {base.label} …"))
            self.post_message(RunNeeded(base.run))
            return
        newest = self._session.newest
        under_way = "" if newest is None or newest is after or newest.complete else newest.label
        key = (*_parts(before), *_parts(after), self._toggled, width, *_figures(before, after), under_way)
        if len(key) == len(self._key) and all(map(_same, key, self._key)):
            return
        self._key = key
        self._title.update(partial(_title_row, base, after, self._session.baseline))
        build = partial(_build, key, before, after, self._toggled, width, under_way)
        if not is_large(before, after):
            self._show_document(build())
            return
        if not len(self._view.document):
            self._view.show(message("Comparing the two runs …"))
        if self._background.request(build):
            self.run_worker(self._background.run(), group="build", exit_on_error=False)

    def _show_document(self, built: _Built) -> None:
        """Show the rows, unless others have been requested in the meantime."""
        key, document = built
        if key is self._key:
            self._view.show(document)

    def on_row_entered(self, message: RowEntered) -> None:
        if message.row.fold is not None:
            self._toggled ^= {message.row.fold}
            self._show()

    def action_section(self, by: int) -> None:
        document, cursor = self._view.document, self._view.cursor
        rows = [i for i in range(len(document)) if _begins_section(document.row(i))]
        further = [i for i in rows if (i - cursor) * by > 0]
        if rows:
            self._view.move_to((further or rows)[0 if by > 0 else -1])


def _build(
    key: tuple[object, ...],
    before: Snapshot | None,
    after: Snapshot | None,
    toggled: frozenset[str],
    width: int,
    under_way: str,
) -> _Built:
    def build() -> Document:
        from tcexplore.documents.diff_view import diff_document

        if after is None:
            return message("Waiting for the first run.")
        return diff_document(before, after, toggled, width, under_way)

    return key, guarded(build)


def _begins_section(row: Row) -> bool:
    from tcexplore.documents.diff_view import SECTIONS

    return row.fold in {f"diff {section.name}" for section in SECTIONS}


def _parts(run: Snapshot | None) -> tuple[object, ...]:
    """Return the parts of a run that are compared. Timing changes all the time: its summary is compared instead."""
    return () if run is None else (run.run, run.graphs, run.breaks, run.guards, run.code.kernels, run.code.wrappers)


def _figures(before: Snapshot | None, after: Snapshot | None) -> tuple[str, ...]:
    """Return what the summary shows of the counts, and each run's verdict and load."""
    if before is None or after is None:
        return ()
    known = (timing for run in (before, after) for timing in (run.timing, run.call_timing))
    timings = [timing for timing in known if timing is not None]
    verdicts = [f"{timing.verdict} {timing.load}" for timing in timings]
    return (*changes(summarize(before), summarize(after)), *verdicts)


def _same(a: object, b: object) -> bool:
    return a == b if isinstance(a, str | int | frozenset) else a is b


def _title_row(before: RunSummary | None, after: Snapshot | None, base: int | None, width: int) -> Row:
    """Return which runs are compared."""
    if after is None:
        return fitted([piece(" diff", "title"), piece("no run yet", "muted")], width)
    against = ""
    if before is not None:
        against = f"with the base, {before.label}" if before.run == base else f"with {before.label}"
    return fitted(
        [piece(" diff", "title"), piece(f"{after.label} of {os.path.basename(after.file)}"), piece(against)], width
    )
