"""One run at a time, the newest; several lanes may run beside each other on the same workers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Protocol

from tcexplore.events import Event, Failed, Job
from tcexplore.events.commands import RecompileQuery
from tcexplore.supervisor.run_process import RunProcess
from tcexplore.supervisor.worker_process import WorkerProcess

GRACE_S = 0.3
"""Seconds between asking a run to end and ending it."""


class Workers(Protocol):
    """Where a lane gets its workers from."""

    def wanted(self) -> None:
        """A lane has a job that waits."""
        ...

    def enter(self, lane: RunQueue) -> None:
        """The lane may have jobs from now on."""
        ...

    def leave(self, lane: RunQueue) -> None:
        """The lane has no more jobs."""
        ...


class RunQueue:
    """Runs the newest job that it was given; `emit` gets the events of its runs, and each worker's `Standby`."""

    def __init__(self, workers: Workers, emit: Callable[[Event], None]) -> None:
        self.emit = emit
        self.waiting: Job | None = None
        self._workers = workers
        self._current: tuple[WorkerProcess, RunProcess] | None = None
        self._held = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to be served."""
        self._workers.enter(self)

    def submit(self, job: Job) -> None:
        """Run this job now and end the one before it."""
        self.end()
        self.waiting = job
        self._workers.wanted()

    def stop_run(self) -> None:
        """End the current run at the user's request; it ends with `Failed`, or `Finished` if all was shown."""
        self.waiting = None
        if self._current is not None:
            host, seat = self._current
            seat.stop()
            self._spawn(_end(host, seat))

    def hold(self, held: bool) -> None:
        """Have this lane's runs, also those to come, pause their timing, or go on with it."""
        self._held = held
        if self._current is not None:
            self._current[1].hold(held)

    def switch(self, target: str) -> bool:
        """Have the run under way lower what it captured for another target, too; False where none can hear it."""
        return self._current is not None and self._current[1].switch(target)

    def ask(self, question: RecompileQuery) -> bool:
        """Have the run under way answer a question; False where none can hear it."""
        return self._current is not None and self._current[1].ask(question)

    @property
    def timing(self) -> bool:
        """Whether something else at work would disturb a timing."""
        return self._current is not None and self._current[1].timing and not self._held

    def take(self, host: WorkerProcess, seat: RunProcess) -> None:
        """Give the waiting job to a seat."""
        assert self.waiting is not None
        job, self.waiting = self.waiting, None
        self._current = host, seat
        seat.hold(self._held)
        seat.give(job, self.emit)

    def refuse(self, failure: Failed) -> None:
        """No worker can be had: say so to the job that waits."""
        if self.waiting is not None:
            self.emit(replace(failure, run=self.waiting.run))
            self.waiting = None

    def end(self) -> None:
        """End what runs and let go of what waits; nothing more is heard of it."""
        self.waiting = None
        if self._current is not None:
            host, seat = self._current
            self._current = None
            seat.mute()
            self._spawn(_end(host, seat))

    async def close(self) -> None:
        """End the lane; its run is gone when this returns."""
        self._workers.leave(self)
        self.end()
        await self.ended()

    async def ended(self) -> None:
        """Until what was ended is gone."""
        await asyncio.gather(*self._tasks)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _end(host: WorkerProcess, seat: RunProcess) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        host.signal(seat, number)
        try:
            async with asyncio.timeout(GRACE_S):
                await seat.over.wait()
        except TimeoutError:
            continue
        return
    await seat.over.wait()
