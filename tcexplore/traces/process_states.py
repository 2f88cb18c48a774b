"""Whether processes of this machine make progress: their main threads' state and CPU time, from /proc."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

ProcessState = Literal["runs", "waits", "stopped", "ended"]

BUSY_SHARE = 0.05
"""Share of a core from which on a thread makes progress: one that waits with a time limit wakes up now and then."""

_WINDOW_S = 1.0
"""Seconds over which the share of a core is measured."""

_EXEC_START = re.compile(r"^se\.exec_start\s*:\s*([\d.]+)", re.M)
_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class ThreadSample(NamedTuple):
    """What the kernel says of a process's main thread."""

    state: str
    """One letter: R, S, D, T, Z."""
    cpu_s: float
    idle_s: float | None
    """Seconds since it last ran; None if the kernel does not say."""


def sample(pid: int) -> ThreadSample | None:
    """Return the state of the main thread of a process of this machine; None if there is none."""
    folder = f"/proc/{pid}/task/{pid}"
    try:
        with open(f"{folder}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return ThreadSample(fields[0], (int(fields[11]) + int(fields[12])) / _TICKS_PER_S, _idle_s(folder))
    except (OSError, ValueError, IndexError):
        return None


def _idle_s(folder: str) -> float | None:
    """Return the seconds since a thread last ran, by the scheduler's clock, which this process reads now."""
    other, own = _exec_start(folder), _exec_start("/proc/thread-self")
    return max(0.0, own - other) if own is not None and other is not None else None


def _exec_start(folder: str) -> float | None:
    try:
        with open(f"{folder}/sched", encoding="utf-8", errors="replace") as file:
            found = _EXEC_START.search(file.read())
    except OSError:
        return None
    return float(found[1]) / 1e3 if found else None


class ProgressWatch:
    """The progress of one process: when its main thread last did more than wait."""

    def __init__(
        self, pid: int, *, sample: Callable[[int], ThreadSample | None] = sample, now: Callable[[], float] = time.time
    ) -> None:
        self._pid = pid
        self._sample = sample
        self._now = now
        self._before: tuple[float, float] | None = None
        """Time and CPU time of the last measurement."""
        self._busy = False
        """Whether it made progress while it was watched."""
        self.state: ProcessState | None = None
        """None before it is known."""
        self.since: float | None = None
        """Time of the last progress as a timestamp; None if there was none while it was watched."""

    def update(self) -> None:
        """Measure, at most once in a while."""
        now = self._now()
        if self._before is not None and now - self._before[0] < _WINDOW_S:
            return
        found = self._sample(self._pid)
        if found is None or found.state in "ZX":
            self.state = "ended" if self._before is not None or found is not None else None
            return
        before, self._before = self._before, (now, found.cpu_s)
        if found.state in "Tt":
            self._rest("stopped", now, found)
        elif before is None:
            if found.idle_s is not None and found.idle_s >= _WINDOW_S:
                self._rest("waits", now, found)
        elif (found.cpu_s - before[1]) / (now - before[0]) >= BUSY_SHARE:
            self.state, self.since, self._busy = "runs", now, True
        else:
            self._rest("waits", now, found)

    def _rest(self, state: ProcessState, now: float, found: ThreadSample) -> None:
        """Note that the process does nothing, since the time that the kernel gives if it is longer."""
        self.state = state
        if found.idle_s is not None and not self._busy and found.idle_s >= 2 * _WINDOW_S:
            began = now - found.idle_s
            self.since = began if self.since is None else min(self.since, began)
