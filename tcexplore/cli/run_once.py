"""One run, from job to the last event, without a screen."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tcexplore import events as ev
from tcexplore.session import Snapshot

Emit = Callable[[ev.Event], None]


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


class EndedBySignalError(Exception):
    """A signal ended the run; `status` is the exit status that says which."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


async def run_once(
    job: ev.Job, within: float, runner: Callable[[Emit], Runner], progress: Callable[[Snapshot], None]
) -> Outcome:
    """Run a job to its end, or for `within` seconds; `progress` sees the snapshot after each event.

    Raises `EndedBySignalError` on SIGINT, SIGTERM and SIGHUP, after the workers have been ended.
    """
    follower = _Follower(job, progress)
    supervisor = runner(follower.take)
    ended = asyncio.get_running_loop().create_future()
    with _signals(ended):
        try:
            await supervisor.start()
            supervisor.submit(job)
            waiting = asyncio.ensure_future(follower.over.wait())
            await asyncio.wait({waiting, ended}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        finally:
            await supervisor.close()
    if ended.done():
        raise EndedBySignalError(ended.result())
    return follower.outcome(within)


class _Follower:
    """Folds the events of a run into its snapshot, and knows when it is over."""

    def __init__(self, job: ev.Job, progress: Callable[[Snapshot], None]) -> None:
        self.snapshot = Snapshot(run=job.run, file=job.file, source=job.source, config=job.config)
        self.machine: ev.Standby | None = None
        self.over = asyncio.Event()
        self._progress = progress

    def take(self, event: ev.Event) -> None:
        if isinstance(event, ev.Standby):
            self.machine = event
        self.snapshot = self.snapshot.apply(event)
        self._progress(self.snapshot)
        if isinstance(event, ev.Finished | ev.Failed) and event.run == self.snapshot.run:
            self.over.set()

    def outcome(self, within: float) -> Outcome:
        if self.snapshot.status != "running":
            return Outcome(self.snapshot, self.machine)
        late = ev.Failed(
            run=self.snapshot.run,
            stage=self.snapshot.phase or "worker",
            blame="person" if self.snapshot.phase in _THEIRS else "compiler",
            type="Timeout",
            message=f"not finished after {within:g} s",
            hint="a larger --timeout gives it longer; an endless loop in the file would look the same",
        )
        return Outcome(self.snapshot.apply(late), self.machine, late=True)


class _signals:  # noqa: N801 - reads as a function
    """While inside, the signals that ask a program to end resolve a future instead."""

    def __init__(self, ended: asyncio.Future[int]) -> None:
        self._ended = ended

    def __enter__(self) -> None:
        for number in _ENDING:
            asyncio.get_running_loop().add_signal_handler(number, self._end, number)

    def __exit__(self, *_: object) -> None:
        for number in _ENDING:
            asyncio.get_running_loop().remove_signal_handler(number)

    def _end(self, number: int) -> None:
        if not self._ended.done():
            self._ended.set_result(number)


_THEIRS = ("importing", "eager", "timing")
"""Phases in which the person's own code is what runs."""

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
