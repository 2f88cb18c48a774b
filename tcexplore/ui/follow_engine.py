"""An engine that shows a job while it runs: each rank is a run that grows."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from tcexplore.events import Finished, Output, RanksCompared, clean
from tcexplore.traced_job import TracedJob
from tcexplore.traces.followed_trace import FollowedTrace, RanksNow, compare_running, ranks_now
from tcexplore.traces.job_watch import JobWatch
from tcexplore.traces.rank_comparison import RankEnd
from tcexplore.traces.rank_ends import RankEnds, add_errors
from tcexplore.traces.trace_job import TraceProcess
from tcexplore.traces.trace_run import TraceRun
from tcexplore.ui.engine import Deliver, RankEngine
from tcexplore.ui.launched_job import LaunchedJob, end_of_errors
from tcexplore.watch import FolderActivity, Watch

POLL_S = 0.5
"""Seconds between two reads without any activity, for network file systems, which report none."""

REST_S = 0.02
"""Seconds between two reads while a job writes all the time: more would take time from the job."""

ROWS_S = 0.1
"""Least seconds between two updates of the ranks' figures."""

COMPARE_S = 1.0
"""Least seconds between two comparisons of the ranks."""

_COMPARE_SHARE = 10
"""A comparison that takes long is repeated after this many times its duration."""

_MOST_OUTPUTS = 64
"""Pieces of output that are kept."""

_RECORDS_TO_START = 300
"""Records of a rank after which its run begins even if its main file is unknown."""


class ComparedState(NamedTuple):
    """What the comparison of the ranks depends on."""

    grown: float
    """Time of the last growth of the trace."""
    settled: bool
    over: bool
    early: Mapping[int, RankEnd]
    """Ranks that failed first."""
    note: str
    """Which ranks have ended, as a sentence."""

    @property
    def ends(self) -> tuple[tuple[int, ...], str]:
        return tuple(self.early), self.note


@dataclass(slots=True)
class FollowedJob:
    """State of the job that the engine follows."""

    trace: FollowedTrace
    launched: LaunchedJob | None
    """The job if tcexplore started it."""
    first_run: int
    """The first run of this job."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to stop following."""
    outputs: deque[Output] = field(default_factory=lambda: deque(maxlen=_MOST_OUTPUTS))
    """The newest output, for ranks that the user opens later."""
    wanted: set[int] = field(default_factory=set)
    """Ranks that the user asked for and whose runs have not begun."""
    shown: dict[int, TraceRun] = field(default_factory=dict)
    """The runs by rank."""
    ended: set[int] = field(default_factory=set)
    """Runs that have ended."""
    ends: RankEnds = field(default_factory=RankEnds)
    rows_at: float = 0.0
    """Time of the last growth of the trace that the ranks' figures show."""
    compare_at: float = 0.0
    """When the ranks may be compared again, on the monotonic clock."""
    compared: ComparedState | None = None
    """State at the last comparison."""
    comparison: RanksCompared | None = None
    watch: JobWatch = field(default_factory=JobWatch)


class FollowEngine(RankEngine):
    """Shows the first rank as soon as it writes, and the figures of all ranks."""

    in_turns = False
    """Whether ranks run one after another, so that their times cannot be compared."""

    def __init__(self, trace: FollowedTrace, rank: int | None, launched: TracedJob | None = None) -> None:
        """`launched` is the job if tcexplore started it: its output is shown, too."""
        super().__init__(rank)
        self._last_run = 0
        self._followed = self._new_followed(trace, launched)
        self._delivered: RanksCompared | None = None
        """The last comparison that was delivered."""
        if launched is None:
            folder = shlex.quote(trace.folders[0])
            paths = ", ".join(trace.paths)
            lines = ("Waiting for TORCH_TRACE records in", f"  {paths}", "To write them:", f"  TORCH_TRACE={folder} \\")
            self.waiting = tuple(map(clean, (*lines, "  python train.py")))

    def _new_followed(self, trace: FollowedTrace, launched: TracedJob | None) -> FollowedJob:
        return FollowedJob(trace, LaunchedJob(launched) if launched is not None else None, self._last_run + 1)

    async def start(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._begin_following()

    def _begin_following(self) -> None:
        job = self._followed
        if job.launched is not None:
            self._last_run = job.first_run
            self._deliver(job.launched.job(job.first_run))
        self._reading = asyncio.create_task(self._follow())

    def _restart(self, trace: FollowedTrace, launched: TracedJob) -> None:
        """Follow a new job of the same command."""
        self._followed = self._new_followed(trace, launched)
        self.runs.clear()
        self._begin_following()

    @property
    def job_to_end(self) -> str:
        launched = self._followed.launched
        return launched.name if launched is not None and launched.ends_with_app else ""

    @property
    def user_files(self) -> frozenset[str]:
        """The user's files that the ranks compiled."""
        return frozenset(file for rank in self._followed.trace.ranks.values() for file in rank.records.sources.files)

    def load(self, rank: int) -> bool:
        if rank not in self._followed.trace.ranks:
            return False
        self._followed.wanted.add(rank)
        return True

    async def _follow(self) -> None:
        job = self._followed
        async with FolderActivity(job.trace.folders, job.stop, writes=True) as activity:
            while not job.stop.is_set():
                more = await asyncio.to_thread(job.trace.update)
                await self._show_new()
                self._show_output()
                await self._show_ranks()
                if not more:
                    await activity.wait(POLL_S)
                    await asyncio.sleep(REST_S)

    # ---- the runs of ranks

    async def _show_new(self) -> None:
        job = self._followed
        ranks = job.trace.ranks
        if not job.shown and not job.wanted and ranks:
            job.wanted.add(self._first if self._first in ranks else min(ranks))
        for rank, known in ranks.items():
            shown = job.shown.get(rank)
            if shown is not None and shown.process is not known.process:
                del job.shown[rank], self.runs[rank]  # the rank's file began again, or there is a newer job
                job.wanted.add(rank)
        for rank in sorted(job.wanted & set(ranks)):
            if await self._begin(ranks[rank].process):
                job.wanted.discard(rank)
        for rank, run in list(job.shown.items()):
            if run.run not in job.ended:
                await self._show_run(ranks[rank].end < len(run.process.index), run)

    async def _begin(self, process: TraceProcess) -> bool:
        """Begin the run of a rank once its main file is known; return whether it began."""
        job = self._followed
        first = job.launched is not None and not job.shown and self._last_run == job.first_run
        run = TraceRun(process, self._last_run + (not first), len(job.trace.ranks), growing=True)
        started = await asyncio.to_thread(run.start)
        quiet = time.time() - job.trace.grown > COMPARE_S
        if not run.reader.context.sources.main and len(process.index) < _RECORDS_TO_START and not quiet:
            return False
        self._last_run = run.run
        job.shown[process.number] = run
        self.runs[process.number] = run.run
        if not first:
            self._deliver(started)
            for output in job.outputs:
                self._deliver(replace(output, run=run.run))
        if job.comparison is not None:
            self._deliver(replace(job.comparison, run=run.run))
        return True

    async def _show_run(self, cut: bool, run: TraceRun) -> None:
        """Deliver what a rank did since the last time; end its run when its process has ended."""
        known = run.machine
        over = self._followed.ends.is_over(run.process.pid)
        batches = run.new_events(last=not cut)
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            for event in batch:
                self._deliver(event)
        if known is None and run.machine is not None:
            self._deliver(run.machine)
        if over:
            self._followed.ended.add(run.run)
            for event in await asyncio.to_thread(run.end):
                self._deliver(event)

    def _show_output(self) -> None:
        """Deliver the output and the end of a job that tcexplore started to all runs."""
        job = self._followed
        if job.launched is None:
            return
        runs = [run.run for run in job.shown.values()] or [job.first_run]
        for event in job.launched.events():
            if isinstance(event, Output):
                job.outputs.append(event)
            for run in runs:
                self._deliver(replace(event, run=run))
        if job.launched.over and not job.shown and job.first_run not in job.ended:
            job.ended.add(job.first_run)
            self._deliver(Finished(run=job.first_run))

    # ---- all ranks

    async def _show_ranks(self) -> None:
        job, trace = self._followed, self._followed.trace
        if not job.shown or not trace.ranks:
            return
        over = self._observe_ends()
        read = not (over or self.in_turns) and await asyncio.to_thread(job.watch.update, trace.ranks)
        now = ranks_now(trace.ranks, over=over, in_turns=self.in_turns)
        state = self._state(now, over=over)
        if self._is_due(state):
            await self._compare(state, now)
        elif job.comparison is not None:
            newest = self._with_new_rows(job.comparison, now)
            if read or trace.grown > job.rows_at + ROWS_S or newest.hang != job.comparison.hang:
                job.comparison = newest
        if job.comparison is not None and job.comparison is not self._delivered:
            self._delivered, job.rows_at = job.comparison, trace.grown
            self._deliver(replace(job.comparison, run=max(self.runs.values())))

    def _observe_ends(self) -> bool:
        """Learn which processes have ended; return whether all have."""
        job, ranks = self._followed, self._followed.trace.ranks
        ended = job.launched is not None and job.launched.over
        for rank in ranks.values():
            rank.over = job.ends.is_over(rank.process.pid) or ended
        if any(rank.over for rank in ranks.values()) and not ended:
            add_errors(ranks, map(end_of_errors, job.trace.folders))
        return all(rank.over for rank in ranks.values())

    def _state(self, now: RanksNow, *, over: bool) -> ComparedState:
        job, ranks = self._followed, self._followed.trace.ranks
        return ComparedState(
            grown=job.trace.grown,
            settled=now.settled,
            over=over,
            early=job.ends.early(ranks, job.launched.report if job.launched is not None else ""),
            note="" if self.in_turns else job.ends.note(ranks),
        )

    def _is_due(self, state: ComparedState) -> bool:
        """Return whether to compare the ranks now. What is final is compared at once."""
        job, last = self._followed, self._followed.compared
        final = state.settled or (last is not None and state.ends != last.ends)
        return state != last and (final or time.monotonic() >= job.compare_at)

    async def _compare(self, state: ComparedState, now: RanksNow) -> None:
        job, began = self._followed, time.monotonic()
        job.compared = state
        notes = (*job.trace.problems, *filter(None, [state.note]))
        compare = partial(compare_running, over=state.over, ends=state.early, in_turns=self.in_turns)
        job.comparison = await asyncio.to_thread(compare, job.trace.ranks, notes, now)
        spent = time.monotonic() - began
        job.compare_at = began + max(COMPARE_S, spent * _COMPARE_SHARE)

    def _with_new_rows(self, comparison: RanksCompared, now: RanksNow) -> RanksCompared:
        """Return the last comparison with the ranks' figures and stacks of now."""
        watch = self._followed.watch
        groups = {row.rank: row.group for row in comparison.rows}
        rows = tuple(replace(row, group=groups.get(row.rank, 0)) for row in now.rows)
        others = (note for note in comparison.notes if note != watch.note)
        return replace(comparison, rows=rows, notes=(*others, *filter(None, [watch.note])), hang=now.hang)

    async def close(self) -> None:
        """Stop following; the job goes on."""
        await self._stop_following()

    async def _stop_following(self) -> None:
        self._followed.stop.set()
        await super().close()
        self._followed.ends.close()


# ---- ranks on every save


class SavedRanksEngine(FollowEngine):
    """Runs a command again when the script, or a file of the user that its ranks compiled, is saved.

    The command imports torch, then waits for a line on stdin: one is kept waiting for the next save.
    """

    in_turns = True

    def __init__(self, file: str, command: Sequence[str], rank: int | None) -> None:
        self._file = os.path.abspath(file)
        self._command = tuple(command)
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        self._files: frozenset[str] = frozenset()
        self._standby: TracedJob | None = None
        self._job = self._new_job()
        super().__init__(FollowedTrace([self._job.folder]), rank, self._job)

    def _new_job(self) -> TracedJob:
        """Return a job with a new folder, not yet started."""
        return TracedJob(self._command, tempfile.mkdtemp(prefix="tcexplore-ranks-"))

    async def start(self, deliver: Deliver) -> None:
        self._watch = Watch(self._file)
        self._job.start(capture=True, held=True)
        self._job.release()
        await super().start(deliver)
        self._tasks = [asyncio.create_task(self._follow_saves()), asyncio.create_task(self._run_on_change())]

    @property
    def job_to_end(self) -> str:
        return ""  # the next start runs the ranks again

    def rerun(self) -> bool:
        self._changed.set()
        return True

    def stop_run(self) -> None:
        asyncio.get_running_loop().run_in_executor(None, self._job.end)

    async def _follow_saves(self) -> None:
        async for _ in self._watch.changes():
            self._changed.set()

    async def _run_on_change(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._stop_following()
            await asyncio.to_thread(_remove, self._job)
            self._job = await self._ready_job()
            self._job.release()
            self._restart(FollowedTrace([self._job.folder]), self._job)

    async def _ready_job(self) -> TracedJob:
        """Return the job that waits, or a new one if there is none, or if it has ended."""
        standby, self._standby = self._standby, None
        if standby is not None and standby.status() is None:
            return standby
        if standby is not None:
            await asyncio.to_thread(_remove, standby)
        job = self._new_job()
        job.start(capture=True, held=True)
        return job

    async def _show_ranks(self) -> None:
        await super()._show_ranks()
        if self._standby is None and self._job.status() is not None:
            self._standby = self._new_job()
            self._standby.start(capture=True, held=True)
        files = self.user_files
        if files != self._files:
            self._files = files
            self._watch.set_modules(files)

    async def close(self) -> None:
        """End everything. The traces are removed; what is shown of them is in memory."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stop_following()
        for job in (self._job, self._standby):
            if job is not None:
                await asyncio.to_thread(_remove, job)


def _remove(job: TracedJob) -> None:
    """End a job, and remove its trace."""
    job.end()
    shutil.rmtree(job.folder, ignore_errors=True)
