"""A core for the terminal app: the run that is timed keeps off it, where there are cores to spare."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

ENOUGH = 4
"""Cores from which on one is left to others."""

TASKS = Path("/proc/self/task")


def keep_off_one(threads: int) -> int | None:
    """Keep all threads of this process off one core that it may use, and return that core; None, and nothing is done,
    where there are fewer than `ENOUGH`, where `threads` of torch's need all, or the system does not let one choose."""
    try:
        own = os.sched_getaffinity(0)
    except (AttributeError, OSError):
        return None
    if len(own) < ENOUGH or threads >= len(own):
        return None
    left = max(own)
    for task in _tasks():
        # A thread may be gone by now.
        with suppress(OSError):
            os.sched_setaffinity(task, own - {left})
    return left


def _tasks() -> list[int]:
    """Threads have affinities of their own: those that exist do not follow the first one."""
    try:
        return [int(task.name) for task in TASKS.iterdir()]
    except OSError:
        return [0]
