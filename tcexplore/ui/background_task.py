"""What takes longer than a key press may wait for: made in a thread, while the screen goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from tcexplore.session import Snapshot
from tcexplore.ui.gc_pause import uncollected

Made = TypeVar("Made")

LARGE = 5_000
"""Nodes and statements from which on a run's documents, and its index, are made in a thread: a twentieth of a second's
work on a slow core."""


def is_large(*runs: Snapshot | None) -> bool:
    """Whether what is made of these runs takes longer than a key press may wait for."""
    return sum(map(_size, runs)) >= LARGE


def _size(run: Snapshot | None) -> int:
    if run is None:
        return 0
    nodes = sum(len(graph.nodes) for graph in run.graphs) + sum(len(graph.nodes) for graph in run.code.aten_graphs)
    return nodes + sum(len(kernel.lines) for kernel in run.code.kernels)


_THREAD = ThreadPoolExecutor(1, "later")
"""One for all: Python runs one thread at a time, and each more is one more that a key waits behind."""


def _quietly(build: Callable[[], Made]) -> Made:
    with uncollected():
        return build()


class Later(Generic[Made]):
    """Makes one thing at a time; of several wishes meanwhile the last one is made next."""

    def __init__(self, put: Callable[[Made], None]) -> None:
        self._put = put
        self._wanted: Callable[[], Made] | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def want(self, build: Callable[[], Made]) -> bool:
        """Have `build` called in a thread, and `put` with what it made; returns whether `work` is to be begun."""
        self._wanted = build
        begin = self._idle.is_set()
        self._idle.clear()
        return begin

    async def work(self) -> None:
        """Make what is wanted until nothing more is."""
        try:
            while (build := self._wanted) is not None:
                self._wanted = None
                self._put(await asyncio.get_running_loop().run_in_executor(_THREAD, _quietly, build))
        finally:
            self._idle.set()

    @property
    def more(self) -> bool:
        """Whether something is wanted that is not being made yet."""
        return self._wanted is not None

    @property
    def is_idle(self) -> bool:
        """Whether all that was wanted is there."""
        return self._idle.is_set()

    async def idle(self) -> None:
        """Until all that was wanted is there."""
        await self._idle.wait()
