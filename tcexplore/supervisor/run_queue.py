"""Run queue: one job at a time, always the newest."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import NamedTuple, Protocol

from tcexplore.events import Event, Failed, Job
from tcexplore.events.commands import EarlyImports, PauseTiming, Rehearsal, RunCommand
from tcexplore.supervisor.exits import explain_syntax_error
from tcexplore.supervisor.run_process import RunProcess
from tcexplore.supervisor.worker_process import WorkerProcess

GRACE_S = 0.3
"""Seconds between SIGTERM and SIGKILL."""

STOPPED_S = 0.3
"""Seconds that the process of a replaced run is stopped before it is ended.

An end at once would cost the new run 20 to 30 ms until its graph on two cores: they free memory meanwhile.
"""


class Workers(Protocol):
    """Interface of the worker pool for a queue."""

    def add_queue(self, queue: RunQueue) -> None:
        """Serve a queue from now on."""
        ...

    def remove_queue(self, queue: RunQueue) -> None:
        """Stop serving a queue."""
        ...

    def serve(self) -> None:
        """Give waiting jobs to run processes, and start more workers if needed."""
        ...

    @property
    def unanswered(self) -> bool:
        """Whether a run has no graph yet, or a job waits for a process."""
        ...


class _CurrentRun(NamedTuple):
    worker: WorkerProcess
    process: RunProcess


class RunQueue:
    """Runs the newest job that was submitted, on workers that it shares with other queues.

    Events of a run carry its number (`Event.run`) and end with one `Failed` or `Finished`, unless a newer job replaces
    the run: its remaining events are dropped. Each worker's `Standby` has run 0.
    """

    def __init__(self, workers: Workers, emit: Callable[[Event], None], *, is_study: bool = False) -> None:
        self.emit = emit
        self.is_study = is_study
        """Whether its jobs are runs of a study, not of a file that the user saves."""
        self.waiting: Job | None = None
        self._workers = workers
        self._current: _CurrentRun | None = None
        self._second_attempt: Job | None = None
        """The last job that ran again."""
        self._paused = False
        """Whether the front end paused timing."""
        self._held = False
        """Whether timing waits for workers that prepare, or for code that another run generates."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Register with the workers; return immediately."""
        self._workers.add_queue(self)

    def submit(self, job: Job) -> None:
        """Run this job now and end the previous run."""
        self.end(STOPPED_S)
        if failure := explain_syntax_error(job):
            self.emit(failure)
            return
        self.waiting = job
        self._workers.serve()

    def stop_run(self) -> None:
        """End the current run on behalf of the user: its last event is a `Failed`, or `Finished` if only timing ran."""
        self.waiting = None
        if self._current is not None:
            self._current.process.mark_stopped()
            self._spawn(_terminate(*self._current))

    def send(self, command: RunCommand) -> bool:
        """Send a command to the current run; return False if no run receives it. A pause also applies to later runs."""
        if isinstance(command, PauseTiming):
            self._paused = command.paused
            command = PauseTiming(paused=self._paused or self._held)
        return self._current is not None and self._current.process.send(command)

    def hold_timing(self, held: bool) -> None:
        """Pause timing in the current and later runs, in addition to the front end's own pauses."""
        if held != self._held:
            self._held = held
            self.send(PauseTiming(paused=self._paused))

    @property
    def rehearsal(self) -> Rehearsal | None:
        """What the process for the next run should rehearse."""
        return None if self._current is None else self._current.process.rehearsal

    @property
    def next_imports(self) -> EarlyImports | None:
        """What the process for the next run should import."""
        return None if self._current is None or self.is_study else self._current.process.next_imports

    @property
    def saves(self) -> bool:
        """Whether it runs a file that the user saves, again and again."""
        return not self.is_study and (self.waiting is not None or self._current is not None)

    @property
    def without_graph(self) -> bool:
        """Whether the current run has neither produced a graph nor ended yet."""
        return self._current is not None and not self._current.process.answered

    @property
    def generates_code(self) -> bool:
        """Whether the current run generates code for a target that the user chose while it ran."""
        return self._current is not None and self._current.process.generates_code

    def assign(self, worker: WorkerProcess, process: RunProcess) -> None:
        """Start the waiting job in a run process."""
        assert self.waiting is not None
        job, self.waiting = self.waiting, None
        self._current = _CurrentRun(worker, process)
        process.start(job, self.emit, self._workers.serve, self._run_again)
        if self._paused or self._held:
            process.send(PauseTiming(paused=True))

    def _run_again(self, job: Job) -> bool:
        """Run a job in another process, once; the first was killed before the job began, as when its server ends."""
        if job is self._second_attempt or self.waiting is not None:
            return False
        self._current, self.waiting, self._second_attempt = None, job, job
        self._workers.serve()
        return True

    def reject(self, failure: Failed) -> None:
        """Fail the waiting job, because no worker can be started."""
        if self.waiting is not None:
            self.emit(replace(failure, run=self.waiting.run))
            self.waiting = None

    def end(self, stopped_s: float = 0) -> None:
        """Drop the waiting job, and stop the current run without further events; end its process after `stopped_s`."""
        self.waiting = None
        if self._current is not None:
            current, self._current = self._current, None
            current.process.mute()
            # A stopped process keeps its memory, of which GPUs have less.
            self._spawn(_terminate(*current, 0 if current.worker.self_priming else stopped_s))

    async def close(self) -> None:
        """Unregister from the workers; return when the run's process is gone."""
        self._workers.remove_queue(self)
        self.end(STOPPED_S if self._workers.unanswered else 0)
        await self.wait_ended()

    async def wait_ended(self) -> None:
        """Wait until the processes of ended runs are gone."""
        await asyncio.gather(*self._tasks)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _terminate(worker: WorkerProcess, process: RunProcess, stopped_s: float = 0) -> None:
    if stopped_s:
        worker.signal(process, signal.SIGSTOP)
        await asyncio.sleep(stopped_s)
    for number in (signal.SIGTERM, signal.SIGKILL):
        worker.signal(process, number)
        worker.signal(process, signal.SIGCONT)
        try:
            async with asyncio.timeout(GRACE_S):
                await process.over.wait()
        except TimeoutError:
            continue
        return
    await process.over.wait()
