"""Timed blocks: units of work repeated long enough for the resolution of the clock."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

CPU_BLOCK_NS = 2_000_000
GPU_BLOCK_NS = 40_000_000
"""Target lengths, well above the minimum for a block (1 ms on a CPU, 5 ms on a GPU).

Longer blocks would even out more jitter, but on a shared processor nearly all of them would lose a time slice.
"""

FIRST_GPU_BLOCK_NS = 10_000_000
"""Length of the blocks on a GPU until there are enough pairs for a verdict: long ones take two seconds."""

RESOLUTIONS = 2_000
"""Minimum length of a block in clock resolutions."""

FRESH_SLICE_S = 0.0001
"""Sleep before each block, so that it starts with a whole time slice.

With seven busy processes on two cores, 57% of 2 ms blocks were interrupted without this sleep and 12% with it.
"""


FEW_UNITS = 64
"""Maximum number of units of a block that are timed one by one: reading the clock takes less than 1% of such a unit."""


class BlockTime(NamedTuple):
    """Nanoseconds of the units of one block."""

    unit_ns: float
    """Their mean."""
    fastest_ns: float | None
    """The fastest; None if there is only one, or if they were not timed one by one."""


class Clock(Protocol):
    """The clock that timing reads and sleeps by; tests provide their own."""

    @property
    def resolution_ns(self) -> int:
        """The smallest difference between two readings."""
        ...

    def now_ns(self) -> int: ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The monotonic clock of this process; its measured resolution includes the cost of a reading."""

    def __init__(self) -> None:
        readings = [time.perf_counter_ns() for _ in range(200)]
        steps = [b - a for a, b in itertools.pairwise(readings) if b > a]
        self.resolution_ns = min(steps, default=1_000_000)

    def now_ns(self) -> int:
        return time.perf_counter_ns()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class BlockTimer:
    """Times blocks of units of work."""

    clock: Clock
    synchronize: Callable[[], None]
    """Waits for the device."""
    reset: Callable[[], None] | None
    """Runs untimed before each unit."""
    min_block_ns: int
    context: Callable[[], AbstractContextManager[object]] = nullcontext
    """Entered once per block."""
    synchronous: bool = False
    """Whether a unit has ended when it returns, as on a CPU, so that it can be timed by itself."""
    first_block_ns: int | None = None
    """`min_block_ns` until there are enough pairs for a verdict; None if it does not differ."""

    def for_first_pairs(self) -> BlockTimer:
        """Return the timer for the pairs of the first verdict."""
        return self if self.first_block_ns is None else replace(self, min_block_ns=self.first_block_ns)

    def units_per_block(self, unit_ns: float) -> int:
        """Return the number of units closest to the target length; they take at least two thirds of it."""
        return max(1, round(self.target_ns / max(unit_ns, 1)))

    @property
    def target_ns(self) -> float:
        """The target length of a block."""
        return max(self.min_block_ns, RESOLUTIONS * self.clock.resolution_ns)

    def time_block(self, run: Callable[[], object], units: int, warm: int = 0) -> BlockTime:
        """Time one block after `warm` untimed units.

        Without `reset`, synchronize the device once at the end of the block. With it, time and synchronize each unit
        separately and add up the times, so that the resets do not count. On a CPU, long units are timed separately too.
        """
        with _gc_disabled(), self.context():
            self._warm_up(run, warm)
            self.clock.sleep(FRESH_SLICE_S)
            if self.reset or (self.synchronous and 1 < units <= FEW_UNITS):
                times = self._time_separately(run, units)
                return BlockTime(max(sum(times), 1) / units, max(min(times), 1) if units > 1 else None)
            return BlockTime(max(self._time_together(run, units), 1) / units, None)

    def _warm_up(self, run: Callable[[], object], units: int) -> None:
        """Run untimed units, so that the block does not depend on earlier work."""
        for _ in range(units):
            if self.reset:
                self.reset()
            run()

    def _time_together(self, run: Callable[[], object], units: int) -> int:
        self.synchronize()
        start = self.clock.now_ns()
        for _ in range(units):
            run()
        self.synchronize()
        return self.clock.now_ns() - start

    def _time_separately(self, run: Callable[[], object], units: int) -> list[int]:
        times = []
        for _ in range(units):
            if self.reset:
                self.reset()
            self.synchronize()
            start = self.clock.now_ns()
            run()
            self.synchronize()
            times.append(self.clock.now_ns() - start)
        return times


@contextmanager
def _gc_disabled() -> Iterator[None]:
    """Disable garbage collection during a block."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
