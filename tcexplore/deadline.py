"""The end of this process by a deadline, whatever it waits for: a terminal, a worker, a thread, a file system."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

END_S = 1.5
"""Seconds for the program to end by itself after the user or a signal asked for it."""


class Deadline:
    """Ends the process with all its descendants unless it has ended by itself, or `cancel` was called."""

    def __init__(self, restore: Callable[[], None] | None = None, keep: Iterable[int] = ()) -> None:
        """`restore` is called last, to restore the terminal. Processes in `keep`, and theirs, are not ended."""
        self._restore = restore
        self._keep = frozenset(keep)
        self._cancelled = threading.Event()
        self._begun = False

    def begin(self, status: int, seconds: float = END_S) -> None:
        """End the process with `status` in so many seconds. Later calls change nothing. Safe in a signal handler."""
        if self._begun:
            return
        self._begun = True
        # A daemon: it works until the interpreter is finalized, and the program does not wait for it.
        threading.Thread(target=self._wait, args=(status, seconds), name="deadline", daemon=True).start()

    def cancel(self) -> None:
        """Let the program take its time from now on."""
        self._cancelled.set()

    def _wait(self, status: int, seconds: float) -> None:
        if self._cancelled.wait(seconds):
            return
        try:
            kill_descendants(self._keep)
            if self._restore is not None:
                self._restore()
        finally:
            os._exit(status)


def kill_descendants(keep: Iterable[int] = (), number: int = signal.SIGKILL) -> None:
    """Send a signal, SIGKILL by default, to the process groups of all descendants. Does nothing except on Linux."""
    kept = frozenset(keep)
    own = os.getpgrp()
    for pid, group in _descendants(os.getpid(), kept):
        # A group may have members outside of this process's descendants only if it is this process's own.
        with suppress(ProcessLookupError, PermissionError):
            if group != own:
                os.killpg(group, number)
            else:
                os.kill(pid, number)


def has_descendants() -> bool:
    """Return whether a descendant of this process runs; False except on Linux."""
    return bool(_descendants(os.getpid(), frozenset()))


def _descendants(pid: int, keep: frozenset[int]) -> list[tuple[int, int]]:
    """Return process id and group of each descendant, without the processes in `keep` and theirs."""
    children: dict[int, list[tuple[int, int]]] = {}
    with suppress(OSError):
        for entry in filter(str.isdecimal, os.listdir("/proc")):
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{entry}/stat", "rb") as file:
                # The process name in parentheses may contain spaces and parentheses.
                state, parent, group = file.read().rpartition(b")")[2].split()[:3]
                if state == b"Z":
                    continue
                children.setdefault(int(parent), []).append((int(entry), int(group)))
    descendants: list[tuple[int, int]] = []
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child[0] not in keep:
                descendants.append(child)
                waiting.append(child[0])
    return descendants
