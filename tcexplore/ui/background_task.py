"""Work that takes longer than a key press may wait for: done in a thread, without garbage collection."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from tcexplore.session import Snapshot

Built = TypeVar("Built")

LARGE = 5_000
"""Minimum nodes and statements of a run whose documents and index are built in a thread: they take a twentieth of a
second on a slow core."""

GC_THRESHOLDS = (20_000, 50, 1_000)
"""Thresholds that make automatic collections rare and short."""

_gc_lock = threading.Lock()
_gc_pauses = 0


@cache
def _thread() -> Executor:
    """Return one thread for all tasks: Python runs one at a time, and a key waits for each more."""
    from concurrent.futures import ThreadPoolExecutor  # not imported before the first frame

    return ThreadPoolExecutor(1, "background")


def is_large(*runs: Snapshot | None) -> bool:
    """Return whether documents of these runs take longer to build than a key press may wait for."""
    return sum(map(_size, runs)) >= LARGE


def _size(run: Snapshot | None) -> int:
    if run is None:
        return 0
    nodes = sum(len(graph.nodes) for graph in run.graphs) + sum(len(graph.nodes) for graph in run.code.aten_graphs)
    return nodes + sum(len(kernel.lines) for kernel in run.code.kernels)


def start_gc() -> None:
    """Enable garbage collection, except of all objects created by then. The oldest are left to `collect_garbage`."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()


def collect_garbage(newest: Snapshot | None) -> None:
    """Collect all garbage: Textual's caches have cycles. Then exempt the objects of a large run."""
    gc.collect()
    if is_large(newest):
        gc.freeze()
    _return_memory()


def _return_memory() -> None:
    """Give freed memory back to the system: glibc keeps what lies below a block in use, after a huge file for ever."""
    import ctypes  # not imported before the first frame

    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def gc_paused(*, large: bool = True) -> Iterator[None]:
    """Pause garbage collection, and exempt objects of a large run from it: they live as long as that run.

    A collection of a large run takes a fifth of a second, during which no thread runs.
    """
    global _gc_pauses
    with _gc_lock:
        _gc_pauses += 1
        gc.disable()
    try:
        yield
    finally:
        with _gc_lock:
            _gc_pauses -= 1
            if not _gc_pauses:
                if large:
                    gc.freeze()
                gc.enable()


async def run_in_background(work: Callable[[], Built]) -> Built:
    """Do some work in the thread, and return its result."""
    return await asyncio.get_running_loop().run_in_executor(_thread(), work)


def _build_without_gc(build: Callable[[], Built]) -> Built:
    with gc_paused():
        return build()


class BackgroundTask(Generic[Built]):
    """Builds one thing at a time; of several requests meanwhile, only the last one is built next."""

    def __init__(self, deliver: Callable[[Built], None]) -> None:
        self._deliver = deliver
        self._requested: Callable[[], Built] | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def request(self, build: Callable[[], Built]) -> bool:
        """Request a call of `build` in a thread, its result to be delivered; return whether to start `run`."""
        self._requested = build
        was_idle = self._idle.is_set()
        self._idle.clear()
        return was_idle

    async def run(self) -> None:
        """Build until there are no more requests."""
        try:
            while (build := self._requested) is not None:
                self._requested = None
                self._deliver(await asyncio.get_running_loop().run_in_executor(_thread(), _build_without_gc, build))
        finally:
            self._idle.set()

    @property
    def has_request(self) -> bool:
        """Whether a request waits for the one under way."""
        return self._requested is not None

    @property
    def is_idle(self) -> bool:
        """Whether all requests have been delivered."""
        return self._idle.is_set()

    async def wait(self) -> None:
        """Wait until all requests have been delivered."""
        await self._idle.wait()
