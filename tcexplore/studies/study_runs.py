"""Runs one after another, each awaited to its end."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol, Self

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.snapshot import start_snapshot

Emit = Callable[[ev.Event], None]
Watcher = Callable[[Snapshot], None]

USER_PHASES = ("importing", "eager", "timing")
"""Phases in which the user's own code runs."""


class Runner(Protocol):
    """What `Runs` needs of a supervisor."""

    async def start(self) -> None: ...

    def submit(self, job: ev.Job) -> None: ...

    async def close(self) -> None: ...


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


class Runs:
    """Workers for one run after another: `async with Runs(Supervisor) as runs`.

    `progress` is called with the snapshot of the run under way on each event.
    """

    def __init__(self, runner: Callable[[Emit], Runner], progress: Watcher = lambda _: None) -> None:
        self._runner = runner(self._take)
        self._progress = progress
        self._snapshot: Snapshot | None = None
        self._over = asyncio.Event()
        self._machine: ev.Standby | None = None
        self._known = asyncio.Event()
        self._count = 0

    async def __aenter__(self) -> Self:
        await self._runner.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.close()

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
        self._count += 1
        job = replace(job, run=self._count)
        self._snapshot = start_snapshot(job)
        self._over.clear()
        self._runner.submit(job)
        try:
            async with asyncio.timeout(limit_s):
                await self._over.wait()
        except TimeoutError:
            return Outcome(self._snapshot.apply(_timed_out(self._snapshot, limit_s)), self._machine, late=True)
        return Outcome(self._snapshot, self._machine)

    @asynccontextmanager
    async def temporary_folder(self, purpose: str) -> AsyncGenerator[str, None]:
        """Make an empty folder for the runs; end them and remove it afterwards, also on cancellation."""
        # Not in a thread: after a cancellation nobody would know the folder's name.
        folder = tempfile.mkdtemp(prefix=f"tcexplore-{purpose}-")
        try:
            yield folder
        finally:
            try:
                # A run under way still writes to the folder.
                await self._runner.close()
            finally:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    def _take(self, event: ev.Event) -> None:
        if isinstance(event, ev.Standby):
            self._machine = self._machine or event
            self._known.set()
        if self._snapshot is None:
            return
        self._snapshot = self._snapshot.apply(event)
        self._progress(self._snapshot)
        if isinstance(event, ev.Finished | ev.Failed) and event.run == self._snapshot.run:
            self._over.set()


def _timed_out(snapshot: Snapshot, limit_s: float) -> ev.Failed:
    return ev.Failed(
        run=snapshot.run,
        stage=snapshot.phase or "worker",
        blame="user" if snapshot.phase in USER_PHASES else "compiler",
        type="Timeout",
        message=f"not finished after {limit_s:g} s",
        hint="--timeout sets the limit; an endless loop in the file times out too",
    )
