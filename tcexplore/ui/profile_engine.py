"""An engine without a model file: each rank of a profiled job is a run."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tcexplore.events import RanksCompared, RanksProfiled
from tcexplore.profiles.profile_job import ProfileJob, ProfileRun
from tcexplore.traces.rank_comparison import compare_ranks
from tcexplore.traces.trace_job import finish_index
from tcexplore.ui.background_task import gc_paused
from tcexplore.ui.engine import Deliver, RankEngine
from tcexplore.ui.trace_engine import deliver_run


class ProfileEngine(RankEngine):
    """Reads the profile of one rank, then compares all ranks; further ranks are read when the user asks for them."""

    def __init__(self, job: ProfileJob, rank: int | None) -> None:
        super().__init__(rank)
        self._job = job
        self._waiting: asyncio.Queue[int] = asyncio.Queue()
        self._count = 0
        """Runs so far."""
        self._profiled: RanksProfiled | None = None
        self._compared: RanksCompared | None = None

    async def start(self, deliver: Deliver) -> None:
        self._deliver = deliver
        first = self._first if self._first in self._job.ranks else next(iter(self._job.ranks))
        self._waiting.put_nowait(first or 0)
        self._reading = asyncio.create_task(self._read())

    def load(self, rank: int) -> bool:
        if rank not in self._job.ranks:
            return False
        self._waiting.put_nowait(rank)
        return True

    async def _read(self) -> None:
        while True:
            await self._read_rank(await self._waiting.get())
            if len(self._job.ranks) > 1:
                self._profiled = self._profiled or await asyncio.to_thread(self._job.compare)
                if self._profiled is not None:
                    self._deliver(replace(self._profiled, run=self._count))
            if self._job.trace is not None and len(self._job.trace.ranks) > 1:
                if self._compared is None:
                    self._compared = await asyncio.to_thread(self._compare)
                self._deliver(replace(self._compared, run=self._count))

    async def _read_rank(self, rank: int) -> None:
        self._count += 1
        self.runs[rank] = self._count
        await deliver_run(ProfileRun(self._job, rank, self._count), self._deliver)

    def _compare(self) -> RanksCompared:
        assert self._job.trace is not None, "the caller checks it"
        with gc_paused():
            return compare_ranks(self._job.trace, finish_index(self._job.trace))
