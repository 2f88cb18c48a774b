"""The clock that timing reads and rests by; tests bring their own."""

from __future__ import annotations

import itertools
import time
from typing import Protocol


class Clock(Protocol):
    """`resolution_ns` is the smallest step that two readings can differ by."""

    @property
    def resolution_ns(self) -> int: ...

    def now_ns(self) -> int: ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The monotonic clock of this process, its resolution as seen, the cost of a reading included."""

    def __init__(self) -> None:
        readings = [time.perf_counter_ns() for _ in range(200)]
        steps = [b - a for a, b in itertools.pairwise(readings) if b > a]
        self.resolution_ns = min(steps, default=1_000_000)

    def now_ns(self) -> int:
        return time.perf_counter_ns()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
