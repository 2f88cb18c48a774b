"""Runs without a screen, which a signal may end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from tcexplore import events as ev
from tcexplore.cli.progress_line import Line
from tcexplore.model_python import OWN_PYTHON, ModelPython
from tcexplore.session import Snapshot
from tcexplore.studies.study_runs import Outcome, Runs, Watcher

Result = TypeVar("Result")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EndedBySignalError(Exception):
    """A signal ended the work."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number
        """The exit status for this signal."""


async def run_once(
    job: ev.Job, limit: float, line: Line | None = None, python: ModelPython = OWN_PYTHON, needed_later: str = ""
) -> Outcome:
    """Run a job in a real worker to its end, or for `limit` seconds; `line` shows the progress.

    The module `needed_later` is imported while the worker imports torch. Raises `EndedBySignalError` on SIGINT, SIGTERM
    and SIGHUP, after the workers have been ended.
    """
    return await until_signal(_run(job, limit, line, python, needed_later))


async def _run(job: ev.Job, limit: float, line: Line | None, python: ModelPython, needed_later: str) -> Outcome:
    from tcexplore.supervisor import Supervisor

    watcher: Watcher = _ignore
    if line is not None:
        line.write("waiting for a worker")
        watcher = line.show
    async with Runs(partial(Supervisor, once=True, python=python), watcher) as runs:
        if needed_later:
            await asyncio.sleep(0)  # the worker starts
            import_module(needed_later)
        return await runs.run(job, limit)


def _ignore(_: Snapshot) -> None:
    """Show no progress."""


async def until_signal(work: Coroutine[Any, Any, Result]) -> Result:
    """Await the work.

    Raises `EndedBySignalError` on SIGINT, SIGTERM and SIGHUP, after the work has been cancelled and has cleaned up.
    """
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(work)
    with _signals(ended):
        either: set[asyncio.Future[Any]] = {task, ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
            raise EndedBySignalError(ended.result())
        return await task


@contextmanager
def _signals(ended: asyncio.Future[int]) -> Iterator[None]:
    """Resolve `ended` with the first signal that asks the program to end."""
    loop = asyncio.get_running_loop()

    def end(number: int) -> None:
        if not ended.done():
            ended.set_result(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, end, number)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
