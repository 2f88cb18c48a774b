"""Fixes of one graph break over the panes: the edit as a diff, its verification so far, and a key to write it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tcexplore.documents.document import Document
from tcexplore.documents.locations import display_path
from tcexplore.events import GraphBreak, Job
from tcexplore.files import NotWrittenError
from tcexplore.fixes.fix import write_change
from tcexplore.fixes.verification import Verification
from tcexplore.session import Snapshot
from tcexplore.studies.fix.fix_result import FixedFiles, FixTarget, by_break
from tcexplore.studies.fix.fix_study import STUDY, FixOptions, fix_target, under_way
from tcexplore.studies.study import StudyState
from tcexplore.ui.actions import bindings
from tcexplore.ui.editor import Undo
from tcexplore.ui.engine import Engine
from tcexplore.ui.screens.study_screen import StudyContext, StudyScreen

if TYPE_CHECKING:
    from tcexplore.ui.fix_preparation import FixPreparation


class FixScreen(StudyScreen):
    """Tries the changes that could remove a break of a run until one is verified."""

    BINDINGS = bindings("fix")
    SCOPES = (*StudyScreen.SCOPES, "fix")
    BELOW_PANES = False

    def __init__(
        self,
        engine: Engine,
        job: Job,
        run: Snapshot,
        broken: GraphBreak,
        undo: Undo,
        fixes: FixPreparation | None = None,
    ) -> None:
        """Make the screen; `fixes` keeps verifications, also this one once it is finished."""
        super().__init__(STUDY, StudyContext(engine, job, run, {}))
        self._fixes = fixes
        self._prepared = fixes.take(run, broken) if fixes is not None else None
        self._target = FixTarget(run, broken, (), "")
        self._undo = undo

    @property
    def job(self) -> Job:
        """Return the job of the run that has the break."""
        return self._job

    def on_unmount(self) -> None:
        if self._fixes is not None and self.study_task is not None:
            self._fixes.keep(self._target.run, self._target.broken, self.study_task)

    def open(self) -> None:
        if self._prepared is not None:
            self.study_task, self._prepared = self._prepared, None
            self.study_task.follow(self._show, self._moved)
            self.state = self.study_task.state
            self._target = self.state.options.target
            self._show()
            return
        target = fix_target(FixedFiles(self._job), self._target.run, self._target.broken)
        self._target = replace(target, first=self._target.first)
        self.begin(FixOptions(target=self._target))

    def build(self, state: StudyState[Any, Any], width: int) -> Document:
        state.written = self._written
        return super().build(state, width)

    @property
    def _written(self) -> tuple[str, ...]:
        """Return the file that was written, if the verified change is still in it."""
        last, verification = self._undo.last, self._verified
        if last is None or verification is None or last.file != verification.change.file:
            return ()
        # The file may have a byte order mark before its text.
        return (display_path(last.file),) if last.after.endswith(verification.change.after.encode()) else ()

    @property
    def _verified(self) -> Verification | None:
        """Return the successful verification; both sides may still be timed."""
        if self.state is None:
            return None
        tried = [one for fixes in by_break(self.state.results) for one in fixes.verifications]
        current = under_way(self.state)
        return next((one for one in (*tried, *([current] if current else [])) if one.verified), None)

    # ---- keys

    def action_write(self) -> None:
        verification = self._verified
        if verification is None:
            over = self.state is None or self.state.over
            self.say("Not verified: nothing is written." if over else "Not verified yet: nothing is written.")
            return
        change = verification.change
        try:
            self._undo.last = write_change(change.file, change.before, change.after)
        except NotWrittenError as error:
            self.say(str(error), "warning")
            return
        self.say(f"Written to {display_path(change.file)}. u undoes it.")
        self._show()

    def action_other(self) -> None:
        """Try the next change instead."""
        count, state = len(self._target.changes), self.state
        if count < 2 or state is None:
            self.say("There is no other fix for this break.")
            return
        tried = self._target.first + len(state.results) + (0 if state.over else 1)
        self._target = replace(self._target, first=tried % count)
        self.begin(FixOptions(target=self._target))

    def action_undo(self) -> None:
        self.say(self._undo.restore())
        self._show()
