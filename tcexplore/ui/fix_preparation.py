"""Fixes that are verified in the background after the run is measured, so that a key shows them at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcexplore import events as ev
from tcexplore.documents.empty_states import missing_reason
from tcexplore.session import Snapshot
from tcexplore.session.economics import DECIDED
from tcexplore.session.ranked_breaks import rank_breaks
from tcexplore.studies.fix.fix_result import FixedFiles, FixTarget, break_fix
from tcexplore.studies.fix.fix_study import STUDY, FixOptions, fix_target
from tcexplore.studies.study import StudyState, study_job
from tcexplore.ui.engine import Engine
from tcexplore.ui.screens.study_screen import StudyTask

ENOUGH_PAIRS = 60
"""Pairs after which an undecided run counts as measured."""

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

    def update(self, run: Snapshot, *, idle: bool) -> None:
        """Propose fixes once a run is complete; verify the next one once it is measured and nothing else runs."""
        job = self._engine.job
        if job is None or job.run != run.run or not run.complete or run.is_script:
            self.stop()
            return
        self._forget_stopped()
        for ranked in rank_breaks(run):
            key = _key(job, run, ranked.graph_break)
            if run.fix_of(ranked.graph_break) is None:
                self._propose(key, run, ranked.graph_break)
            elif idle and _measured(run) and key not in self._tasks and self._may_start(key):
                self._start(key, run)

    def stop(self) -> None:
        """End the verification under way, if there is one; it begins again later."""
        if self._current is not None and not self._current.state.over:
            self._current.stop()
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

    def keep(self, run: Snapshot, graph_break: ev.GraphBreak, task: StudyTask) -> None:
        """Keep a verification that a screen has shown to its end, unless there is one or the program has changed."""
        job, state = self._engine.job, task.state
        if job is None or job.run != run.run or not state.over or state.stopped or state.error:
            return
        key = _key(job, run, graph_break)
        self._targets.setdefault(key, state.options.target)
        kept = self._tasks.setdefault(key, task)
        self._deliver(break_fix(run, self._targets[key], kept.state))

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
        state: StudyState[Any, Any] = StudyState(study_job(job), FixOptions(target=target))

        def changed() -> None:
            if not state.stopped:
                self._deliver(break_fix(run, target, state))

        self._current = StudyTask(self._engine, STUDY, state, changed, lambda: None)
        self._tasks[key] = self._current


def _measured(run: Snapshot) -> bool:
    """Return whether the timing of a run is settled, so that another run does not disturb it."""
    timing = run.timing
    if run.status == "ok" or run.timing_skipped:
        return True
    if run.eager_lines or missing_reason(run, ev.RunFact.LINE_TIMES):
        return True  # lines are timed once the timing rests, which may be long before a slow program has enough pairs
    return timing is not None and (timing.verdict in DECIDED or timing.pairs_taken >= ENOUGH_PAIRS)


def _key(job: ev.Job, run: Snapshot, graph_break: ev.GraphBreak) -> Key:
    """Return what a verification depends on: the texts of all files, the arguments, and the break."""
    texts = tuple(sorted((source.file, source.text) for source in run.sources))
    return job.source, job.config, job.argv, texts, graph_break.location, graph_break.kind
