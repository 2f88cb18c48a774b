"""One run at a time, the newest: standbys kept ready, older runs ended, nothing left behind."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from dataclasses import replace

from tcexplore.events import Event, Failed, Job
from tcexplore.supervisor.host import Host
from tcexplore.supervisor.seat import Seat

GRACE_S = 0.3
"""Seconds between asking a run to end and ending it."""

STANDBYS = 2
"""Single-use workers kept ready: the next one takes seconds, and saves come in pairs."""


class Supervisor:
    """Runs jobs in worker processes; `emit` gets their events on the event loop.

    Events of a run carry its generation (`Event.run`) and end with one `Failed` or `Finished`, unless a newer job
    ended it: nothing more is heard of that one. `Standby` comes with run 0. `single` asks for workers that do not fork.
    """

    def __init__(self, emit: Callable[[Event], None], *, single: bool = False) -> None:
        self._emit = emit
        self._single = single
        self._hosts: list[Host] = []
        self._started = 0
        self._restock = True
        self._waiting: Job | None = None
        self._current: tuple[Host, Seat] | None = None
        self._greeted: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    async def start(self) -> None:
        """Begin to get a worker ready; returns at once, `Standby` tells when it is."""
        self._add_host()

    def submit(self, job: Job) -> None:
        """Run this job now and end the one before it."""
        self._end_current()
        self._waiting = job
        self._restock = True
        self._serve()

    def stop_run(self) -> None:
        """End the current run at the person's request; it ends with `Failed`, or `Finished` if all was shown."""
        self._waiting = None
        if self._current is not None:
            host, seat = self._current
            seat.stop()
            self._spawn(self._end(host, seat))

    async def close(self) -> None:
        """End every process; returns when none is left."""
        self._closing = True
        self._waiting = None
        self._end_current()
        await asyncio.gather(*(host.close() for host in self._hosts))
        await asyncio.gather(*self._tasks)

    def _add_host(self) -> None:
        self._started += 1
        self._hosts.append(Host(self._started, self._changed, single=self._single))

    def _changed(self, host: Host) -> None:
        if self._closing:
            return
        if host.standby is not None and host.number not in self._greeted:
            self._greeted.add(host.number)
            self._emit(host.standby)
        if host.failure is not None:
            self._refuse(host.failure)
            host.failure = None
        if host.gone:
            self._hosts.remove(host)
        self._serve()

    def _serve(self) -> None:
        """Give the waiting job to a spare seat, and keep spares coming."""
        for host in self._hosts:
            if self._waiting is not None and host.spare is not None and host.spare.ready:
                self._seat(host, host.spare, self._waiting)
        self._replenish()

    def _seat(self, host: Host, seat: Seat, job: Job) -> None:
        self._waiting, host.spare = None, None
        self._current = host, seat
        seat.give(job, self._emit)

    def _replenish(self) -> None:
        if not self._restock:
            return
        templates = [host for host in self._hosts if host.template and not host.gone]
        for host in templates:
            if host.spare is None:
                host.offer()
        ready = any(host.standby is not None for host in self._hosts)
        enough = STANDBYS if ready and not templates else 1
        for _ in range(enough - sum(host.spare is not None for host in self._hosts)):
            self._add_host()

    def _refuse(self, failure: Failed) -> None:
        """No run can be had: say so to the job that waits, and leave it at that until there is another."""
        self._restock = False
        if self._waiting is not None:
            self._emit(replace(failure, run=self._waiting.run))
            self._waiting = None

    def _end_current(self) -> None:
        if self._current is not None:
            host, seat = self._current
            self._current = None
            seat.mute()
            self._spawn(self._end(host, seat))

    async def _end(self, host: Host, seat: Seat) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            host.signal(seat, number)
            try:
                async with asyncio.timeout(GRACE_S):
                    await seat.over.wait()
            except TimeoutError:
                continue
            return
        await seat.over.wait()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
