"""A study over the panes: how far it is, and what it has found so far."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic

from textual.app import ComposeResult

from tcexplore.documents.document import Document
from tcexplore.events import Job
from tcexplore.session import Snapshot
from tcexplore.studies.study_job import one_of_many
from tcexplore.studies.study_runs import Going, Result
from tcexplore.ui.actions import bindings
from tcexplore.ui.engine import Engine
from tcexplore.ui.lines.guarded_document import guarded
from tcexplore.ui.lines.row_line import RowLine
from tcexplore.ui.messages import RowEntered
from tcexplore.ui.screen_lines import footer, study_line
from tcexplore.ui.screens.overlay_screen import OverlayScreen
from tcexplore.ui.study_task import StudyTask


class StudyScreen(OverlayScreen, Generic[Result]):
    """Begins its study when it opens and stops it when it closes; see `ui/study.py` for how to make one.

    `last` has the last study of each name: one of the same file and configuration is shown again instead. `own` is the
    file's own run.
    """

    BINDINGS = bindings("study")
    SCOPES = (*OverlayScreen.SCOPES, "study")
    NAME = ""
    """What the study is called in the title, and its page of help."""

    def __init__(
        self, engine: Engine, job: Job, last: dict[str, StudyTask[Any]] | None = None, own: Snapshot | None = None
    ) -> None:
        super().__init__()
        self.own = own
        self.study: StudyTask[Result] | None = None
        self._engine = engine
        self._job = one_of_many(job)
        self._last = {} if last is None else last
        self._toggled: frozenset[str] = frozenset()
        self._title = RowLine(study_line(self.NAME, self._job, None), id="title")

    @abstractmethod
    def going(self) -> Going[Result]:
        """How the study goes."""

    @abstractmethod
    def build(self, study: StudyTask[Result], width: int) -> Document:
        """What it has found so far; `self._toggled` are the folds that the user changed."""

    @property
    def page(self) -> tuple[str, str]:
        return self.NAME, self.NAME.capitalize()

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._view
        yield RowLine(footer(self.SCOPES), id="footer")

    def on_mount(self) -> None:
        last = self._last.get(self.NAME)
        if last is not None and last.found and _same(last.job, self._job):
            self.study = last
            self._show()
        else:
            self.open()

    def on_unmount(self) -> None:
        if self.study is not None:
            self.study.stop()

    def open(self) -> None:
        """Begin; a study that has to ask for something first asks here."""
        self.begin()

    @property
    def job(self) -> Job:
        """The file as it is now, to be varied."""
        return one_of_many(self._engine.job) if self._engine.job is not None else self._job

    def begin(self) -> StudyTask[Result]:
        """Begin the study, anew where there was one, with the file as it is now."""
        if self.study is not None:
            self.study.stop()
        self._job = self.job
        self.study = StudyTask(self._engine, self._job, self.going(), self._show, self._moved)
        self._last[self.NAME] = self.study
        self._show()
        return self.study

    # ---- what it does on keys

    def action_stop_study(self) -> None:
        if self.study is None or self.study.over:
            self.say("Nothing is running: r begins anew.")
        else:
            self.study.stop()

    def action_again(self) -> None:
        self.open()

    def on_row_entered(self, message: RowEntered) -> None:
        if message.row.fold is not None:
            self._toggled ^= {message.row.fold}
            self._show()

    # ---- the rows

    def _moved(self) -> None:
        if self.is_mounted:
            self._title.update(study_line(self.NAME, self._job, self.study))

    def _show(self) -> None:
        study = self.study
        if study is None or not self.is_mounted:
            return
        self._moved()
        self._view.show(guarded(lambda: self.build(study, self._view.text_width)))


def _same(a: Job, b: Job) -> bool:
    return (a.source, a.config, a.argv) == (b.source, b.config, b.argv)
