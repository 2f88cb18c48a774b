"""Runs of a study: one after another, or several at once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol, Self

from tcexplore import events as ev
from tcexplore.events.commands import PauseTiming, RunCommand
from tcexplore.processes import make_temporary_folder, remove_temporary_folder
from tcexplore.session import Snapshot
from tcexplore.session.snapshot import start_snapshot
from tcexplore.studies.progress import BudgetSpentError, StudyProgress

Emit = Callable[[ev.Event], None]
Watcher = Callable[[Snapshot], None]

USER_PHASES = ("importing", "eager", "timing")
"""Phases in which the user's own code runs."""


class Runner(Protocol):
    """Interface that `Runs` needs of a supervisor or a queue."""

    async def start(self) -> None: ...

    def submit(self, job: ev.Job) -> None: ...

    def send(self, command: RunCommand) -> bool: ...

    def end(self) -> None: ...

    async def close(self) -> None: ...


class RefusedError(Exception):
    """The study cannot study this file; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished run."""

    snapshot: Snapshot
    machine: ev.Standby | None = None
    """The first message of the worker; None if no worker became ready."""
    late: bool = False
    """Whether it ended because its time was over."""


def failure_status(run: Snapshot) -> int:
    """Return the exit status of a run: 0 ok, 2 the user's file or arguments, 3 the compiler or the worker."""
    if run.failure is None:
        return 0
    return 2 if run.failure.blame == "user" else 3


def has_ended(run: Snapshot) -> bool:
    """Return whether a run has had its last event."""
    return run.status != "running"


class StudyRun:
    """A queue with at most one run at a time."""

    def __init__(self, runner: Callable[[Emit], Runner], on_event: Callable[[StudyRun, ev.Event], None]) -> None:
        self.queue = runner(self._take)
        self._snapshot: Snapshot | None = None
        self._on_event = on_event
        self._held = False
        self._changed = asyncio.Event()

    def begin(self, job: ev.Job, *, hold: bool) -> None:
        """Start a job; with `hold`, it waits before it times anything until `resume`."""
        self._snapshot = start_snapshot(job)
        if hold != self._held:
            self._held = hold
            self.queue.send(PauseTiming(paused=hold))
        self.queue.submit(job)

    async def wait(self, reached: Callable[[Snapshot], bool], limit_s: float) -> bool:
        """Wait until the run is over or `reached` holds; return False after `limit_s` seconds."""
        try:
            async with asyncio.timeout(limit_s if limit_s < math.inf else None):
                while not (has_ended(self.snapshot) or reached(self.snapshot)):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    @property
    def is_free(self) -> bool:
        """Whether a run may begin: the last one was ended."""
        return self._snapshot is None

    @property
    def snapshot(self) -> Snapshot:
        """What is known of the run."""
        assert self._snapshot is not None
        return self._snapshot

    def resume(self) -> None:
        """Let the run time."""
        self._held = False
        self.queue.send(PauseTiming(paused=False))

    def pause(self) -> None:
        """Let the run wait after the pair that it measures."""
        self._held = True
        self.queue.send(PauseTiming(paused=True))

    def end(self, event: ev.Event | None = None) -> Snapshot:
        """End the run, with `event` as its last one, and return it."""
        run, self._snapshot = self.snapshot, None
        if has_ended(run):
            return run
        self.queue.end()
        return run if event is None else run.apply(event)

    def _take(self, event: ev.Event) -> None:
        if self._snapshot is not None:
            self._snapshot = self._snapshot.apply(event)
            self._changed.set()
        self._on_event(self, event)


class Runs:
    """Workers for the runs of a study: `async with Runs(supervisor.study_queue) as runs`.

    `progress` is called with the snapshot of a run on each of its events.
    """

    def __init__(self, runner: Callable[[Emit], Runner], progress: Watcher = lambda _: None) -> None:
        self._make_queue = runner
        self._progress = progress
        self._queues: list[StudyRun] = []
        self._free: list[StudyRun] = []
        self._machine: ev.Standby | None = None
        self._known = asyncio.Event()
        self._count = 0
        self.steps = StudyProgress()

    async def __aenter__(self) -> Self:
        self._free.append(await self._open_queue())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close_queues()

    async def machine(self, limit_s: float) -> ev.Standby | None:
        """Wait for the first message of a worker; return None after `limit_s` seconds."""
        try:
            async with asyncio.timeout(limit_s):
                await self._known.wait()
        except TimeoutError:
            return None
        return self._machine

    async def run(self, job: ev.Job, limit_s: float) -> Outcome:
        """Run a job to its end, or for `limit_s` seconds. Jobs are numbered in the order of the calls."""
        run = await self.begin(job)
        try:
            ended = await self.wait(run, has_ended, limit_s)
            last = None if ended else timed_out(run.snapshot, limit_s)
            return Outcome(run.end(last), self._machine, late=not ended)
        finally:
            self.release(run)

    async def run_in_order(self, jobs: Sequence[ev.Job], limit_s: float, at_once: int) -> AsyncGenerator[Outcome, None]:
        """Run jobs, `at_once` at a time, and yield them in their order; those after a closed generator are ended."""
        waiting = list(reversed(jobs))
        running: list[asyncio.Task[Outcome]] = []
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    running.append(asyncio.create_task(self.run(waiting.pop(), limit_s)))
                yield await running.pop(0)
        finally:
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running)

    async def begin(self, job: ev.Job, *, hold: bool = False) -> StudyRun:
        """Start a job beside those that are running; the caller waits for it and releases it."""
        if not self.steps.budget_left_s:
            raise BudgetSpentError
        run = self._free.pop() if self._free else await self._open_queue()
        self._count += 1
        run.begin(replace(job, run=self._count), hold=hold)
        return run

    async def wait(self, run: StudyRun, reached: Callable[[Snapshot], bool], limit_s: float) -> bool:
        """Wait as `StudyRun.wait`. Raises `BudgetSpentError`."""
        budget_s = self.steps.budget_left_s
        in_time = await run.wait(reached, min(limit_s, budget_s))
        if not in_time and budget_s < limit_s:
            raise BudgetSpentError
        return in_time

    def release(self, run: StudyRun) -> None:
        """End a run, if it is still under way, and reuse its queue."""
        if not run.is_free:
            run.end()
        self._free.append(run)

    @asynccontextmanager
    async def temporary_folder(self, purpose: str) -> AsyncGenerator[str, None]:
        """Make an empty folder for the runs; end them and remove it afterwards, also on cancellation."""
        # Not in a thread: after a cancellation nobody would know the folder's name.
        folder = make_temporary_folder(purpose)
        try:
            yield folder
        finally:
            try:
                # A run under way still writes to the folder.
                await self._close_queues()
            finally:
                await asyncio.to_thread(remove_temporary_folder, folder)

    async def _open_queue(self) -> StudyRun:
        run = StudyRun(self._make_queue, self._take)
        self._queues.append(run)
        await run.queue.start()
        return run

    async def _close_queues(self) -> None:
        await asyncio.gather(*(run.queue.close() for run in self._queues))

    def _take(self, run: StudyRun, event: ev.Event) -> None:
        if isinstance(event, ev.Standby):
            self._machine = self._machine or event
            self._known.set()
        if not run.is_free:
            self._progress(run.snapshot)


def timed_out(snapshot: Snapshot, limit_s: float) -> ev.Failed:
    """Return the failure of a run that did not end in time."""
    return ev.Failed(
        run=snapshot.run,
        stage=snapshot.phase or "worker",
        blame="user" if snapshot.phase in USER_PHASES else "compiler",
        type=ev.TIMEOUT,
        message=f"not finished after {limit_s:g} s",
        hint="--timeout sets the limit; an endless loop in the file times out too",
    )
