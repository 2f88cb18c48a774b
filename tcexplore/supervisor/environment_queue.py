"""Run queues for runs in fresh processes: in several environments, or because their first call is to be cold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from tcexplore.events import Event, Job
from tcexplore.events.commands import PauseTiming, RunCommand
from tcexplore.model_python import ModelPython
from tcexplore.supervisor.run_queue import RunQueue
from tcexplore.supervisor.supervisor import Supervisor


class EnvironmentQueue:
    """Runs each job in a new worker of the environment that `Job.python` names.

    No worker is prepared for a later run: it would disturb the compile and the timing of this one.
    """

    def __init__(self, pythons: Mapping[str, ModelPython], emit: Callable[[Event], None]) -> None:
        self._pythons = pythons
        self._emit = emit
        self._current: Supervisor | None = None
        self._paused = False
        self._closing: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start nothing before the first job."""

    def submit(self, job: Job) -> None:
        """Run this job now and end the previous run."""
        self.end()
        self._current = Supervisor(self._emit, once=True, python=self._pythons[job.python])
        self._current.send(PauseTiming(paused=self._paused))
        self._current.start_now()
        self._current.submit(job)

    def send(self, command: RunCommand) -> bool:
        """Send a command to the current run; return False if no run receives it. A pause also applies to later runs."""
        if isinstance(command, PauseTiming):
            self._paused = command.paused
        return self._current is not None and self._current.send(command)

    def end(self) -> None:
        """End the current run and its worker."""
        if self._current is not None:
            task = asyncio.create_task(self._current.close())
            self._current = None
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """End the current run; return when all processes have ended."""
        self.end()
        await asyncio.gather(*self._closing)


class StudyQueue:
    """Runs the jobs of a study on shared workers, and those that are cold in a new worker each."""

    def __init__(
        self, shared: Callable[[Callable[[Event], None]], RunQueue], python: ModelPython, emit: Callable[[Event], None]
    ) -> None:
        """`shared` makes the queue on the shared workers."""
        self._shared = shared(emit)
        self._cold = EnvironmentQueue({"": python}, emit)
        self._current: RunQueue | EnvironmentQueue = self._shared

    async def start(self) -> None:
        """Register with the shared workers; return immediately."""
        await self._shared.start()

    def submit(self, job: Job) -> None:
        """Run this job and end the previous run."""
        self._current.end()
        self._current = self._cold if job.cold else self._shared
        self._current.submit(job)

    def send(self, command: RunCommand) -> bool:
        """Send a command to the current run; return False if no run receives it. A pause also applies to later runs."""
        received = [queue.send(command) for queue in (self._shared, self._cold)]
        return any(received)

    def end(self) -> None:
        """End the current run."""
        self._current.end()

    async def close(self) -> None:
        """End the current run; return when all processes have ended."""
        await asyncio.gather(self._shared.close(), self._cold.close())
