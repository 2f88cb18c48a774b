"""Notice that something may have changed in folders, at once and without cost while nothing changes."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Self

QUIET_S = 0.001
"""Seconds without activity before files are read: a rename or several files written together are one activity."""

LONGEST_S = 0.25
"""Seconds after which files are read even if activity goes on."""

CHECK_S = 2.0
"""Seconds between reads without any activity, for file systems that report none (network shares, containers)."""

STEP_MS = 25
"""Milliseconds between two looks at what `watchfiles` collected, on systems other than Linux."""

_MODIFIED = 0x2
"""inotify: MODIFY, each write to a file that stays open."""

_EVENTS = 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
"""inotify: ATTRIB, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF, MOVE_SELF."""


class FolderActivity:
    """Reports possible changes in folders: once at the start, at each activity, and every `CHECK_S`.

    Activity between two calls of `next` is not lost. Ends when `stop` is set.
    """

    def __init__(self, folders: tuple[str, ...], stop: asyncio.Event, *, writes: bool = False) -> None:
        """With `writes`, each write to a file that stays open is an activity."""
        self._folders = folders
        self._events = _EVENTS | (_MODIFIED if writes else 0)
        self._stop = stop
        self._active = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._descriptor = -1

    async def __aenter__(self) -> Self:
        polled = bool(os.environ.get("WATCHFILES_FORCE_POLLING"))
        try:
            self._descriptor = -1 if polled else _open_inotify(self._folders, self._events)
        except OSError:
            self._start(self._watch(force_polling=True))  # the system has no more inotify watches
        else:
            if self._descriptor < 0:
                self._start(self._watch())
            else:
                asyncio.get_running_loop().add_reader(self._descriptor, self._read)
                self._start(self._check())
        self._start(self._end())
        # One step of the loop sets up the watch. The first read finds earlier changes.
        await asyncio.sleep(0)
        self._active.set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
        await asyncio.gather(*self._tasks)

    async def next(self) -> bool:
        """Wait for activity and its end; return False after `stop`."""
        await self._active.wait()
        deadline = asyncio.get_running_loop().time() + LONGEST_S
        if not self._stop.is_set():
            self._active.clear()
        while asyncio.get_running_loop().time() < deadline and await self.wait(QUIET_S):
            pass
        return not self._stop.is_set()

    async def wait(self, seconds: float) -> bool:
        """Wait for activity, for at most `seconds`; return whether there was any."""
        try:
            async with asyncio.timeout(seconds):
                await self._active.wait()
        except TimeoutError:
            return False
        if self._stop.is_set():
            return False
        self._active.clear()
        return True

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    def _read(self) -> None:
        try:
            os.read(self._descriptor, 65_536)
        except BlockingIOError:
            return
        self._active.set()

    async def _check(self) -> None:
        while not self._stop.is_set():
            try:
                async with asyncio.timeout(CHECK_S):
                    await self._stop.wait()
            except TimeoutError:
                self._active.set()

    async def _end(self) -> None:
        await self._stop.wait()
        self._active.set()

    async def _watch(self, force_polling: bool | None = None) -> None:
        from watchfiles import awatch

        try:
            async for _ in awatch(
                *self._folders, watch_filter=None, step=STEP_MS, debounce=int(LONGEST_S * 1e3),
                rust_timeout=int(CHECK_S * 1e3), yield_on_timeout=True, recursive=False, stop_event=self._stop,
                force_polling=force_polling,
            ):  # fmt: skip
                self._active.set()
        except FileNotFoundError:
            pass
        except OSError:
            if not force_polling:
                await self._watch(force_polling=True)
        finally:
            self._stop.set()


def _open_inotify(folders: tuple[str, ...], events: int) -> int:
    """Return a descriptor that is readable after activity in the folders; -1 where the system has no inotify."""
    if sys.platform != "linux":
        return -1
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    add: Callable[[int, bytes, int], int] = libc.inotify_add_watch
    for folder in folders:
        if add(descriptor, os.fsencode(folder), events) < 0 and os.path.isdir(folder):
            number = ctypes.get_errno()
            os.close(descriptor)
            raise OSError(number, os.strerror(number), folder)
    return descriptor
