"""Work that a signal may end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EndedBySignalError(Exception):
    """A signal ended the work; `status` is the exit status that says which."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


async def until_signal(work: Coroutine[Any, Any, Result]) -> Result:
    """Do the work. Raises `EndedBySignalError` on SIGINT, SIGTERM and SIGHUP, after the work has been cancelled and
    has put everything away."""
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


class _signals:  # noqa: N801 - reads as a function
    """While inside, the signals that ask a program to end resolve a future instead."""

    def __init__(self, ended: asyncio.Future[int]) -> None:
        self._ended = ended

    def __enter__(self) -> None:
        for number in ENDING:
            asyncio.get_running_loop().add_signal_handler(number, self._end, number)

    def __exit__(self, *_: object) -> None:
        for number in ENDING:
            asyncio.get_running_loop().remove_signal_handler(number)

    def _end(self, number: int) -> None:
        if not self._ended.done():
            self._ended.set_result(number)
