"""Fixes of graph breaks: verified in the background once the run is measured, and shown, tried and written by a key."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any

from tcexplore import events as ev
from tcexplore.documents.document import Document
from tcexplore.documents.empty_states import missing_reason
from tcexplore.documents.locations import display_path
from tcexplore.events import GraphBreak, Job
from tcexplore.files import NotWrittenError
from tcexplore.fixes.fix import write_change
from tcexplore.fixes.verification import Verification
from tcexplore.session import Snapshot
from tcexplore.session.ranked_breaks import rank_breaks
from tcexplore.studies.fix import STUDY, FixedFiles, FixOptions, FixTarget, break_fix, by_break, fix_target, under_way
from tcexplore.studies.study import StudyState, run_timeout, study_job
from tcexplore.ui.actions import bindings
from tcexplore.ui.engine import Engine
from tcexplore.ui.screens.study_screen import Studies, StudyContext, StudyScreen, StudyTask
from tcexplore.ui.user_files import Undo

Key = tuple[Any, ...]


class FixPreparation:
    """Verifies the fixes of the newest run one by one, the most expensive break first.

    Finished verifications are kept by program text and break. `deliver` gets what becomes known of a break.
    """

    def __init__(self, engine: Engine, deliver: Callable[[ev.BreakFix], None]) -> None:
        self._engine = engine
        self._deliver = deliver
        self._tasks: dict[Key, StudyTask] = {}
        self._targets: dict[Key, FixTarget] = {}
        self._current: StudyTask | None = None
        self._ended: set[Key] = set()
        """Those that the user has stopped after a result: they do not begin again by themselves."""
        self._withdraw: Callable[[], None] = lambda: None
        """Says that the fix under way is only proposed, once its verification is stopped."""

    def update(self, run: Snapshot, *, idle: bool) -> None:
        """Propose fixes once a run is complete; verify the next one once it is measured and nothing else runs."""
        job = self._engine.job
        if job is None or job.run != run.run or not run.complete:
            self.stop()
            return
        self._forget_stopped()
        for ranked in rank_breaks(run):
            key = _key(job, run, ranked.graph_break)
            if run.fix_of(ranked.graph_break) is None:
                self._propose(key, run, ranked.graph_break)
            elif idle and _measured(run) and key not in {*self._tasks, *self._ended} and self._may_start(key):
                self._start(key, run)

    def stop(self) -> None:
        """End the verification under way, if there is one; it begins again later."""
        if self._current is not None and not self._current.state.over:
            self._current.stop()
            self._withdraw()
        self._current = None
        self._forget_stopped()

    def _forget_stopped(self) -> None:
        self._tasks = {key: task for key, task in self._tasks.items() if not task.state.stopped}

    def take(self, run: Snapshot, graph_break: ev.GraphBreak) -> StudyTask | None:
        """Return the verification of a break, finished or under way, for a screen; stop any other one."""
        job = self._engine.job
        task = None if job is None else self._tasks.get(_key(job, run, graph_break))
        if task is None or task.state.stopped or task.state.error:
            self.stop()
            return None
        if task is self._current:
            self._current = None
        self.stop()
        return task

    def keep(self, run: Snapshot, graph_break: ev.GraphBreak, task: StudyTask) -> bool:
        """Keep a verification that a screen has shown, and go on with it, unless there is another one.

        Return whether it is kept: not if it was stopped, or the program has changed.
        """
        job, state = self._engine.job, task.state
        if job is None or job.run != run.run:
            return False
        if state.error:
            self._deliver(break_fix(run, state.options.target, None))
            return False
        self._forget_stopped()  # `o` on the screen stops the one that it began with
        key = _key(job, run, graph_break)
        target = self._targets.setdefault(key, state.options.target)
        if state.stopped:
            if state.results:
                self._ended.add(key)
                self._deliver(break_fix(run, target, state))
            return False
        kept = self._tasks.setdefault(key, task)
        if kept is task and not state.over:
            self._current = task
            self._withdraw = partial(self._deliver, break_fix(run, target, None))
            task.follow(partial(self._deliver_state, run, target, state), lambda: None)
        self._deliver(break_fix(run, target, kept.state))
        return kept is task

    def _deliver_state(self, run: Snapshot, target: FixTarget, state: StudyState[Any, Any]) -> None:
        if not state.stopped:
            self._deliver(break_fix(run, target, state))

    def _may_start(self, key: Key) -> bool:
        target = self._targets.get(key)
        return bool(target and target.changes) and (self._current is None or self._current.state.over)

    def _propose(self, key: Key, run: Snapshot, graph_break: ev.GraphBreak) -> None:
        task, job = self._tasks.get(key), self._engine.job
        assert job is not None, "update has checked it"
        if key not in self._targets:
            self._targets[key] = fix_target(FixedFiles(job), run, graph_break)
        self._deliver(break_fix(run, self._targets[key], task.state if task else None))

    def _start(self, key: Key, run: Snapshot) -> None:
        job, target = self._engine.job, self._targets[key]
        assert job is not None, "update has checked it"
        state: StudyState[Any, Any] = StudyState(study_job(job), FixOptions(target=target), run_timeout(run))
        changed = partial(self._deliver_state, run, target, state)
        self._current = StudyTask(self._engine, STUDY, state, changed, lambda: None)
        self._withdraw = partial(self._deliver, break_fix(run, target, None))
        self._tasks[key] = self._current


def _measured(run: Snapshot) -> bool:
    """Return whether the calls of a run are timed and profiled: another run would delay that, often by minutes.

    Lines are timed last, as soon as there is an estimate. Those of a script are of calls that are made after its end.
    """
    if run.status == "ok" or run.timing_skipped:
        return True
    if run.is_script:
        return run.phase == "answering"
    return bool(run.eager_lines or missing_reason(run, ev.RunFact.LINE_TIMES))


def _key(job: ev.Job, run: Snapshot, graph_break: ev.GraphBreak) -> Key:
    """Return what a verification depends on: the texts of all files, the arguments, and the break."""
    texts = tuple(sorted((source.file, source.text) for source in run.sources))
    return job.source, job.config, job.argv, texts, graph_break.location, graph_break.kind


class FixScreen(StudyScreen):
    """Tries the changes that could remove a break of a run until one is verified."""

    BINDINGS = bindings("fix")
    SCOPES = (*StudyScreen.SCOPES, "fix")
    BEGINS_ZOOMED = True

    def __init__(
        self,
        engine: Engine,
        job: Job,
        run: Snapshot,
        broken: GraphBreak,
        undo: Undo,
        fixes: FixPreparation | None = None,
        others: Studies | None = None,
    ) -> None:
        """Make the screen; `fixes` keeps verifications, and goes on with this one when the screen closes.

        `others` are the studies of the file: two that time at once disturb each other.
        """
        super().__init__(STUDY, StudyContext(engine, job, run, Studies(lambda _: None)))
        self._fixes = fixes
        self._prepared = fixes.take(run, broken) if fixes is not None else None
        self._target = FixTarget(run, broken, (), "")
        self._undo = undo
        self._others = others

    @property
    def job(self) -> Job:
        """Return the job of the run that has the break."""
        return self._job

    def close_study(self, task: StudyTask) -> None:
        """Leave a verification to `fixes`, or end it."""
        if self._fixes is None or not self._fixes.keep(self._target.run, self._target.graph_break, task):
            task.stop()

    def open(self) -> None:
        if self._prepared is not None:
            task, self._prepared = self._prepared, None
            self._target = task.state.options.target
            self._study_context.studies.begin(self._key, task)
            self.resume(task)
            return
        target = fix_target(FixedFiles(self._job), self._target.run, self._target.graph_break)
        self._target = replace(target, first=self._target.first)
        self.begin(FixOptions(target=self._target))

    @property
    def ended_by_this(self) -> StudyTask | None:
        return self._others.ended_by_another if self._others is not None else None

    def stop_others(self) -> None:
        super().stop_others()
        if self._others is not None:
            self._others.stop()

    def build(self, state: StudyState[Any, Any], width: int) -> Document:
        state.written = self._written
        return super().build(state, width)

    @property
    def without_effect(self) -> Collection[str]:
        return ("fix-write",) if self._verified is None or self._written else ()

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
