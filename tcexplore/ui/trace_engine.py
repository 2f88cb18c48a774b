"""An engine without a model file: each rank of a traced job is a run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace

from tcexplore.events import Event, RanksCompared
from tcexplore.traces.forked_run import ForkedRun
from tcexplore.traces.rank_comparison import compare_ranks
from tcexplore.traces.trace_job import TraceJob, TraceProcess, finish_index
from tcexplore.traces.trace_run import RunReader, TraceRun
from tcexplore.ui.background_task import gc_paused
from tcexplore.ui.engine import Deliver, RankEngine

_LEAST_WAIT_S = 0.1
_WAIT_SHARE = 1.0
"""Time between two updates of the panes, as a share of the time that was read before: an update takes as long as the
run is large, and updates at equal intervals would take most of the time of a large trace."""


class TraceEngine(RankEngine):
    """Reads the first rank of a job, then compares all ranks; further ranks are read when the user asks for them."""

    def __init__(
        self,
        trace: TraceJob,
        rank: int | None,
        problems: Iterable[str] = (),
        before: TraceJob | None = None,
        unread: int = 0,
        forked: ForkedRun | None = None,
    ) -> None:
        """`before` is another job, whose same rank becomes the first run, to diff with.

        `forked` reads the first rank already, as run 1.
        """
        super().__init__(rank)
        self._forked = forked
        self._before = before
        self._trace = trace
        self._problems = list(problems)
        self._unread = unread
        self._waiting: asyncio.Queue[TraceProcess] = asyncio.Queue()
        self._count = 0
        """Runs so far."""
        self._comparison: RanksCompared | None = None

    async def start(self, deliver: Deliver) -> None:
        self._deliver = deliver
        first = self._trace.process(self._first)
        if self._before is not None:
            self._waiting.put_nowait(self._before.process(first.number))
        self._waiting.put_nowait(first)
        self._reading = asyncio.create_task(self._read())

    def load(self, rank: int) -> bool:
        process = next((process for process in self._trace.ranks if process.number == rank), None)
        if process is not None:
            self._waiting.put_nowait(process)
        return process is not None

    async def _read(self) -> None:
        while True:
            process = await self._waiting.get()
            own = self._before is None or process not in self._before.processes
            # A thread of this process would take the time of reading, and share the index with it.
            if self._forked is not None and self._comparison is None:
                self._comparison, _ = await asyncio.gather(
                    asyncio.to_thread(self._compare), self._read_rank(process, own=own)
                )
            else:
                await self._read_rank(process, own=own)
            if own and self._comparison is None:
                self._comparison = await asyncio.to_thread(self._compare)
            if own and self._comparison is not None:
                self._deliver(replace(self._comparison, run=self._count))

    async def _read_rank(self, process: TraceProcess, *, own: bool) -> None:
        self._count += 1
        if own:
            self.runs[process.number] = self._count
        ranks = self._trace.ranks if own or self._before is None else self._before.ranks
        reader: RunReader
        if self._forked is not None and self._forked.run == self._count:
            reader = self._forked
        else:
            reader = TraceRun(process, self._count, len(ranks), "" if own else "before, ")
        await deliver_run(reader, self._deliver)

    async def close(self) -> None:
        await super().close()
        if self._forked is not None:
            await asyncio.to_thread(self._forked.close)

    def _compare(self) -> RanksCompared:
        with gc_paused():
            return compare_ranks(self._trace, [*self._problems, *finish_index(self._trace)], unread=self._unread)


async def deliver_run(reader: RunReader, deliver: Deliver) -> None:
    """Read a run in a thread, and deliver its events in few large parts: the panes are made anew for each."""

    def deliver_all(events: list[Event]) -> None:
        for event in events:
            deliver(event)
        events.clear()

    began = time.monotonic()
    shown_at = began - _LEAST_WAIT_S  # the first events say what is read
    deliver(await asyncio.to_thread(reader.start))
    batches = reader.batches()
    machine_shown = False
    waiting: list[Event] = []
    while True:
        following = asyncio.ensure_future(asyncio.to_thread(_next_batch, batches))
        try:
            # A batch may take long, and must not hold up the events that are there.
            due = shown_at + max(_LEAST_WAIT_S, _WAIT_SHARE * (shown_at - began))
            await asyncio.wait((following,), timeout=max(0.0, due - time.monotonic()) if waiting else None)
            if waiting and time.monotonic() >= due:
                shown_at = time.monotonic()
                deliver_all(waiting)
            batch = await following
        finally:
            following.cancel()
        if batch is None:
            break
        waiting += batch
        if not machine_shown and (machine := reader.machine) is not None:
            machine_shown = True
            deliver(machine)
    deliver_all(waiting)


def _next_batch(batches: Iterable[list[Event]]) -> list[Event] | None:
    with gc_paused():
        return next(iter(batches), None)
