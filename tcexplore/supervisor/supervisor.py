"""Standbys kept ready, shared between lanes, nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tcexplore.events import Event, Failed, Job, Standby
from tcexplore.events.commands import RecompileQuery
from tcexplore.supervisor.run_process import FULL_SPEED_S
from tcexplore.supervisor.run_queue import RunQueue
from tcexplore.supervisor.worker_process import WorkerProcess

STANDBYS = 2
"""Single-use workers kept ready: the next one takes seconds, and saves come in pairs."""


class Supervisor:
    """Runs jobs in worker processes; `emit` gets their events on the event loop.

    Events of a run carry its generation (`Event.run`) and end with one `Failed` or `Finished`, unless a newer job
    ended it: nothing more is heard of that one. `Standby` comes with run 0. `single` asks for workers that do not fork.

    What is submitted here ends what was submitted before. A `beside(emit)` runs jobs of its own on the same workers,
    as a supervisor of its own would that has its worker ready.
    """

    def __init__(self, emit: Callable[[Event], None], *, single: bool = False) -> None:
        self._single = single
        self._hosts: list[WorkerProcess] = []
        self._started = 0
        self._restock = True
        self._main = RunQueue(self, emit)
        self._lanes = [self._main]
        self._standby: Standby | None = None
        self._greeted: set[int] = set()
        self._closing = False
        self._later: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Begin to get a worker ready; returns at once, `Standby` tells when it is."""
        self._add_host()

    def submit(self, job: Job) -> None:
        """Run this job now and end the one before it."""
        self._main.submit(job)

    def stop_run(self) -> None:
        """End the current run at the user's request; it ends with `Failed`, or `Finished` if all was shown."""
        self._main.stop_run()

    def hold(self, held: bool) -> None:
        """Have the runs submitted here pause their timing, also those to come, or go on with it."""
        self._main.hold(held)

    def switch(self, target: str) -> bool:
        """Have the run under way lower what it captured for another target, too; False where none can hear it."""
        return self._main.switch(target)

    def ask(self, question: RecompileQuery) -> bool:
        """Have the run under way answer a question; False where none can hear it."""
        return self._main.ask(question)

    def beside(self, emit: Callable[[Event], None]) -> RunQueue:
        """Somewhere to run jobs that neither end nor wait for those submitted here; to be started and closed."""
        return RunQueue(self, emit)

    async def close(self) -> None:
        """End every process; returns when none is left."""
        self._closing = True
        if self._later is not None:
            self._later.cancel()
        for lane in self._lanes:
            lane.end()
        await asyncio.gather(*(host.close() for host in self._hosts))
        await asyncio.gather(*(lane.ended() for lane in self._lanes))

    # ---- what lanes need

    def wanted(self) -> None:
        """A lane has a job that waits."""
        self._restock = True
        if not self._closing:
            self._serve()

    def enter(self, lane: RunQueue) -> None:
        """The lane may have jobs from now on."""
        self._lanes.append(lane)
        if self._standby is not None:
            lane.emit(self._standby)

    def leave(self, lane: RunQueue) -> None:
        """The lane has no more jobs."""
        if lane in self._lanes:
            self._lanes.remove(lane)

    # ---- workers

    def _add_host(self) -> None:
        self._started += 1
        self._hosts.append(WorkerProcess(self._started, self._changed, single=self._single))

    def _changed(self, host: WorkerProcess) -> None:
        if self._closing:
            return
        if host.standby is not None and host.number not in self._greeted:
            self._greeted.add(host.number)
            self._standby = host.standby
            for lane in self._lanes:
                lane.emit(host.standby)
        if host.failure is not None:
            self._refuse(host.failure)
            host.failure = None
        if host.gone:
            self._hosts.remove(host)
        self._serve()

    def _serve(self) -> None:
        """Give each waiting job a spare seat, and keep spares coming."""
        for host in self._hosts:
            lane = next((lane for lane in self._lanes if lane.waiting is not None), None)
            if lane is not None and host.spare is not None and host.spare.ready:
                seat, host.spare = host.spare, None
                lane.take(host, seat)
        self._replenish()

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
            if self._would_disturb():
                self._replenish_later()
                return
            self._add_host()

    def _would_disturb(self) -> bool:
        """Whether to wait with one more worker, which takes seconds of a core: nobody needs it yet, and a run is timed
        or the one before it is not ready."""
        if any(lane.waiting is not None for lane in self._lanes) or not self._hosts:
            return False
        coming = any(host.standby is None for host in self._hosts)
        return coming or any(lane.timing for lane in self._lanes)

    def _replenish_later(self) -> None:
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(FULL_SPEED_S, self._again)

    def _again(self) -> None:
        self._later = None
        if not self._closing:
            self._serve()

    def _refuse(self, failure: Failed) -> None:
        """No run can be had: say so to the jobs that wait, and leave it at that until there is another."""
        self._restock = False
        for lane in self._lanes:
            lane.refuse(failure)
