"""Runs one after another, each followed to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeVar

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.snapshot import start_snapshot

Emit = Callable[[ev.Event], None]
Watcher = Callable[[Snapshot], None]

THEIRS = ("importing", "eager", "timing")
"""Phases in which the user's own code is what runs."""


class Runner(Protocol):
    """What is needed of a supervisor."""

    async def start(self) -> None: ...

    def submit(self, job: ev.Job) -> None: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that one run made known. `machine` is None when no worker ever got ready; `late` when time ran out."""

    snapshot: Snapshot
    machine: ev.Standby | None = None
    late: bool = False


class Runs:
    """Workers for one run after another: `async with Runs(Supervisor) as runs`. `progress` sees each run grow."""

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

    async def machine(self, within: float) -> ev.Standby | None:
        """What the worker says of itself, as soon as one is ready; None where none is in time."""
        try:
            async with asyncio.timeout(within):
                await self._known.wait()
        except TimeoutError:
            return None
        return self._machine

    async def run(self, job: ev.Job, within: float) -> Outcome:
        """Run a job to its end, or for `within` seconds. Its generation is this object's own."""
        self._count += 1
        job = replace(job, run=self._count)
        self._snapshot = start_snapshot(job)
        self._over.clear()
        self._runner.submit(job)
        try:
            async with asyncio.timeout(within):
                await self._over.wait()
        except TimeoutError:
            return Outcome(self._snapshot.apply(_late(self._snapshot, within)), self._machine, late=True)
        return Outcome(self._snapshot, self._machine)

    async def end(self) -> None:
        """Make no more runs; the last one is gone when this returns."""
        await self._runner.close()

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


Result = TypeVar("Result")
Say = Callable[[str], None]
Going = Callable[[ev.Job, Runs, Say], AsyncIterator[Result]]
"""How a study goes: with the job to vary and runs to make, it yields each result as it has it and says what is under
way."""


def _late(snapshot: Snapshot, within: float) -> ev.Failed:
    return ev.Failed(
        run=snapshot.run,
        stage=snapshot.phase or "worker",
        blame="user" if snapshot.phase in THEIRS else "compiler",
        type="Timeout",
        message=f"not finished after {within:g} s",
        hint="a larger --timeout gives it longer; an endless loop in the file would look the same",
    )
