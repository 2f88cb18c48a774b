"""Synchronous helper that runs samples in real workers, one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.snapshot import start_snapshot
from tcexplore.supervisor.run_queue import RunQueue
from tests.supervisor.runs import Runs

SAMPLES = Path(__file__).parents[2] / "samples"

TIMEOUT_S = 100.0

CODE_ONLY = """
from torch._inductor.async_compile import AsyncCompile
AsyncCompile.cpp_pybinding = lambda *_: lambda *_: None
"""
"""Replaces each C++ kernel by a function that does nothing: the code is generated, but not compiled."""

Edit = tuple[str, str]


def edited(name: str, *edits: Edit) -> str:
    """Return a sample's text after these edits; each old text must occur exactly once."""
    text = (SAMPLES / name).read_text()
    for old, new in edits:
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {name}"
        text = text.replace(old, new)
    return text


class Explorer:
    """A queue for many runs on the shared workers, for tests that are not coroutines."""

    def __init__(self, shared: Runs) -> None:
        self._loop = shared.loop
        self._queue: RunQueue = shared.supervisor.study_queue(self._take)
        self._snapshot: Snapshot | None = None
        self._ended = asyncio.Event()
        self._number = 0
        self._unedited: dict[tuple[Any, ...], Snapshot] = {}

    def __enter__(self) -> Self:
        self._loop.run_until_complete(self._queue.start())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run_until_complete(self._queue.close())

    def explore(self, name: str, *edits: Edit, entry: str | None = None, **config: Any) -> Snapshot:
        """Return the finished run of a sample after edits, without timing. Runs without edits are cached.

        Only without edits, C++ code is compiled, results are compared and calls profiled: tests with edits check only
        graphs and code.
        """
        key = (name, entry, tuple(sorted(config.items())))
        if not edits and key in self._unedited:
            return self._unedited[key]
        self._number += 1
        job = ev.Job(
            run=self._number, file=str(SAMPLES / name), source=edited(name, *edits) + (CODE_ONLY if edits else ""),
            name=entry, config=ev.Config(**config), time_for=0.0, examine=not edits, profile=not edits,
        )  # fmt: skip
        run = self._loop.run_until_complete(self._run(job))
        if not edits:
            self._unedited[key] = run
        return run

    async def _run(self, job: ev.Job) -> Snapshot:
        self._snapshot = start_snapshot(job)
        self._ended = asyncio.Event()
        self._queue.submit(job)
        async with asyncio.timeout(TIMEOUT_S):
            await self._ended.wait()
        return self._snapshot

    def _take(self, event: ev.Event) -> None:
        if self._snapshot is not None and event.run == self._snapshot.run:
            self._snapshot = self._snapshot.apply(event)
            if isinstance(event, ev.Finished | ev.Failed):
                self._ended.set()


def lines(snapshot: Snapshot, mark: str) -> list[int]:
    """Return the numbers of the lines that contain `mark`, from 1."""
    return [number for number, line in enumerate(snapshot.source.splitlines(), 1) if mark in line]


def generated(snapshot: Snapshot, having: Callable[[ev.Kernel], bool] = lambda _: True) -> list[ev.Kernel]:
    """Return the kernels that Inductor generated."""
    return [kernel for kernel in snapshot.code.kernels if kernel.language != "extern" and having(kernel)]


def extern(snapshot: Snapshot) -> list[ev.Kernel]:
    """Return the extern kernels."""
    return [kernel for kernel in snapshot.code.kernels if kernel.language == "extern"]


def fuses(*ops: str) -> Callable[[ev.Kernel], bool]:
    """Return a predicate: whether a kernel contains all of these ops, given as parts of ATen names."""
    return lambda kernel: all(any(op in name for name in kernel.ops) for op in ops)
