"""A cure of one graph break over the panes: the edit as a diff, and its proof as it comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from tcexplore.documents.document import Document
from tcexplore.documents.locations import display_path
from tcexplore.events import GraphBreak, Job
from tcexplore.fixes.file_writes import NotWrittenError, write
from tcexplore.fixes.fix import Change
from tcexplore.fixes.verification import Proof
from tcexplore.session import Snapshot
from tcexplore.studies.fixes.fixes_plan import FixAttempts
from tcexplore.studies.study_job import EACH_TIME_FOR, EACH_TIMEOUT
from tcexplore.studies.study_runs import Going, Runs, Say
from tcexplore.ui.actions import bindings
from tcexplore.ui.engine import Engine
from tcexplore.ui.screens.study_screen import StudyScreen
from tcexplore.ui.study_task import StudyTask
from tcexplore.ui.undo import Undo
from tcexplore.watch import UnreadableError, read_source


class CureScreen(StudyScreen[Proof]):
    """Tries the changes that could remove `found`, a break of the run `own`, until one is proven."""

    BINDINGS = bindings("fix")
    SCOPES = (*StudyScreen.SCOPES, "fix")
    NAME = "cure"

    def __init__(self, engine: Engine, job: Job, own: Snapshot, found: GraphBreak, undo: Undo) -> None:
        super().__init__(engine, job, {}, own)
        self._found = found
        self._before = own
        self._undo = undo
        self._changes: tuple[Change, ...] = ()
        self._advice = ""
        self._skipped = 0
        self._trying: Change | None = None

    @property
    def job(self) -> Job:
        """The file as the run in which it breaks had it."""
        return self._job

    def going(self) -> Going[Proof]:
        async def going(job: Job, runs: Runs, say: Say) -> AsyncIterator[Proof]:
            treatment = FixAttempts(job, read_source)
            self._changes, self._advice = _known(treatment, self._found)
            for number, change in enumerate(self._changes[self._skipped :], self._skipped + 1):
                self._trying = change
                say(f"{number} of {len(self._changes)}: {change.cure.name}")
                run = await runs.run(treatment.trial(change, EACH_TIME_FOR), EACH_TIMEOUT)
                proof = Proof(change, self._found, self._before, run.snapshot)
                yield proof
                if proof.proven:
                    return

        return going

    def build(self, study: StudyTask[Proof], width: int) -> Document:
        from tcexplore.studies.fixes.fixes_document import cure

        return cure(self._tried(study), width)

    def _tried(self, study: StudyTask[Proof]) -> Any:
        from tcexplore.studies.fixes.fixes_document import Tried

        run, change = study.run, self._trying
        current = Proof(change, self._found, self._before, run) if run is not None and change is not None else None
        last = self._undo.last
        change = self.proven.change if self.proven else None
        # The file may have a byte order mark before its text.
        written = bool(change and last and last.file == change.file and last.after.endswith(change.after.encode()))
        return Tried(
            self._found,
            self._job.file,
            tuple(study.found),
            None if study.over else current,
            of=len(self._changes),
            running=not study.over,
            advice=self._advice,
            written=display_path(last.file) if written and last else "",
        )

    @property
    def proven(self) -> Proof | None:
        """The proof that holds, once there is one; both sides may still be timed."""
        study, change = self.study, self._trying
        if study is None:
            return None
        tried = list(study.found)
        if study.run is not None and change is not None and not study.over:
            tried.append(Proof(change, self._found, self._before, study.run))
        return next((proof for proof in tried if proof.proven), None)

    def _moved(self) -> None:
        super()._moved()
        self._show_again()

    def _show_again(self) -> None:
        """The proof fills while a run goes on."""
        study = self.study
        if study is not None and self.is_mounted and not study.over:
            from tcexplore.ui.lines.guarded_document import guarded

            self._view.show(guarded(partial(self.build, study, self._view.text_width)))

    # ---- what it does on keys

    def action_write(self) -> None:
        proof = self.proven
        if proof is None:
            over = self.study is None or self.study.over
            self.say("It is not proven: nothing is written." if over else "It is not proven yet: nothing is written.")
            return
        change = proof.change
        try:
            self._undo.last = write(change.file, change.before, change.after)
        except NotWrittenError as error:
            self.say(str(error), "warning")
            return
        self.say(f"Written to {display_path(change.file)}: u takes it back.")
        self._show()

    def action_other(self) -> None:
        """The next change that could be made instead."""
        if len(self._changes) < 2:
            self.say("There is no other cure for this break.")
            return
        tried = self._trying
        at = self._changes.index(tried) + 1 if tried in self._changes else 0
        self._skipped = at % len(self._changes)
        self.begin()

    def action_undo(self) -> None:
        self.say(self._undo.take_back())
        self._show()


def _known(treatment: FixAttempts, found: GraphBreak) -> tuple[tuple[Change, ...], str]:
    """What could be changed, and what to do where nothing of it holds."""
    try:
        return treatment.changes(found), treatment.advice(found)
    except UnreadableError:
        return (), ""
