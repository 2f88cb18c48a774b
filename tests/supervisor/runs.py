"""Runs with a real supervisor, one at a time, and what their events and processes show."""

from __future__ import annotations

import asyncio
import os
import select
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from tcexplore.events import (
    Config,
    Event,
    FactMissing,
    Failed,
    Finished,
    Job,
    Output,
    Standby,
)
from tcexplore.supervisor import Supervisor

PATIENCE_S = 60
MLP = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)
    def forward(self, x):
        return self.linear(x).relu() + 1
model = Net()
inputs = (torch.randn(4, 16),)
"""
"""A model file without graph breaks."""

E = TypeVar("E", bound=Event)


class Runs:
    """Submits jobs and collects their events."""

    def __init__(self, folder: Path, **supervisor: Any) -> None:
        self.file = folder / "model.py"
        self.events: list[Event] = []
        self.supervisor = Supervisor(self._receive, **supervisor)
        self.loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()
        self._run = 0

    def _receive(self, event: Event) -> None:
        self.events.append(event)
        self._arrived.set()

    async def wait_for(self, *kinds: type[Event]) -> Event:
        """Return the first event of the current run (or `Standby`) that has one of these types."""
        return await self.until(
            lambda event: isinstance(event, kinds) and (event.run == self._run or isinstance(event, Standby))
        )

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        """Return the first event for which `wanted` is true."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for event in self.events:
                    if wanted(event):
                        return event
                self._arrived.clear()
                await self._arrived.wait()

    def submit(
        self,
        source: str,
        *,
        time_for: float | None = 0,
        name: str | None = None,
        retargetable: bool = False,
        recompile_queries: tuple[str, ...] = (),
        examine: bool = True,
        profile: bool = True,
        timing_processes: int = 0,
        try_recompile_fixes: bool = False,
        structure_only: bool = False,
        counted_kernels: tuple[str, ...] = (),
        **config: Any,
    ) -> int:
        self._run += 1
        config = {"backend": "eager", **config}
        self.supervisor.submit(
            Job(
                run=self._run,
                file=str(self.file),
                source=source,
                name=name,
                argv=("one", "two"),
                config=Config(**config),
                time_for=time_for,
                timing_processes=timing_processes,
                retargetable=retargetable,
                recompile_queries=recompile_queries,
                examine=examine,
                profile=examine and profile,
                try_recompile_fixes=try_recompile_fixes,
                structure_only=structure_only,
                counted_kernels=counted_kernels,
            )
        )
        return self._run

    async def run(self, source: str, **options: Any) -> list[Event]:
        """Make one run and return its events."""
        number = self.submit(source, **options)
        await self.wait_for(Finished, Failed)
        return [event for event in self.events if event.run == number]

    async def failure(self, source: str, **options: Any) -> Failed:
        """Make one run that fails and return its failure."""
        last = (await self.run(source, **options))[-1]
        assert isinstance(last, Failed), last
        return last


def printed(events: list[Event], stream: str = "stdout") -> str:
    return "".join(event.text for event in events if isinstance(event, Output) and event.stream == stream)


def only(events: Sequence[Event], kind: type[E]) -> list[E]:
    """Return the events of one type."""
    return [event for event in events if isinstance(event, kind)]


def failed_facts(events: Sequence[Event]) -> list[FactMissing]:
    """Return the missing facts, except those that this torch cannot give."""
    return [missing for missing in only(events, FactMissing) if not missing.reason.startswith("this torch has no")]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition by polling."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - processes come and go without an event
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    """Return whether a process is running and not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def descendants(pid: int) -> set[int]:
    """Return the running descendants of `pid`."""
    children = defaultdict[int, list[int]](list)
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            state, parent = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                children[int(parent)].append(int(entry))
    pids, unvisited = set[int](), [pid]
    while unvisited:
        unvisited += children[unvisited.pop()]
        pids.update(unvisited)
    return pids


def gone(pids: set[int], within: float = 5.0) -> bool:
    """Return whether all processes have ended and were reaped."""
    end = time.monotonic() + within
    while any(alive(pid) for pid in pids) and time.monotonic() < end:
        select.select([], [], [], 0.05)
    return not any(alive(pid) for pid in pids)
