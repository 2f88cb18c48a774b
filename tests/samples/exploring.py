"""Synchronous helper that runs samples in a real worker, one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.snapshot import start_snapshot
from tcexplore.supervisor import Supervisor

SAMPLES = Path(__file__).parents[2] / "samples"

TIMEOUT_S = 100.0

Edit = tuple[str, str]


def edited(name: str, *edits: Edit) -> str:
    """Return a sample's text after these edits; each old text must occur exactly once."""
    text = (SAMPLES / name).read_text()
    for old, new in edits:
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {name}"
        text = text.replace(old, new)
    return text


class Explorer:
    """One supervisor for many runs, so that only the first run waits for the import of torch."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._supervisor: Supervisor | None = None
        self._snapshot: Snapshot | None = None
        self._ended = asyncio.Event()
        self._number = 0
        self._unedited: dict[tuple[Any, ...], Snapshot] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._supervisor is not None:
            self._runner.run(self._supervisor.close())
        self._runner.close()

    def explore(self, name: str, *edits: Edit, entry: str | None = None, **config: Any) -> Snapshot:
        """Return the finished run of a sample after edits, without timing. Runs without edits are cached."""
        key = (name, entry, tuple(sorted(config.items())))
        if not edits and key in self._unedited:
            return self._unedited[key]
        self._number += 1
        job = ev.Job(
            run=self._number, file=str(SAMPLES / name), source=edited(name, *edits), name=entry,
            config=ev.Config(**config), time_for=0.0,
        )  # fmt: skip
        run = self._runner.run(self._run(job))
        if not edits:
            self._unedited[key] = run
        return run

    async def _run(self, job: ev.Job) -> Snapshot:
        if self._supervisor is None:
            self._supervisor = Supervisor(self._take)
            await self._supervisor.start()
        self._snapshot = start_snapshot(job)
        self._ended = asyncio.Event()
        self._supervisor.submit(job)
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
