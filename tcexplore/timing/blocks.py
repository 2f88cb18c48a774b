"""One block: a unit of work repeated until the clock can be trusted, timed as one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from tcexplore.timing.clock import Clock

CPU_BLOCK_NS = 2_000_000
GPU_BLOCK_NS = 10_000_000
"""Aimed at: well above what a block must last (1 ms on a CPU, 5 ms on a GPU), so that a lucky sizing stays above it.

Longer ones would even out more jitter, but on a shared processor nearly all of them would lose a time slice."""

RESOLUTIONS = 2_000

FRESH_SLICE_S = 0.0001
"""Slept before each block, so that it starts with a whole time slice.

Blocks of 2 ms beside seven busy processes on two cores: 57 % were interrupted without this, 12 % with it.
"""


@dataclass(frozen=True, slots=True)
class BlockTimer:
    """Times units of work. `synchronize` waits for the device; `reset`, where set, runs untimed before each unit.

    A block runs inside `around()`.
    """

    clock: Clock
    synchronize: Callable[[], None]
    reset: Callable[[], None] | None
    shortest_ns: int
    around: Callable[[], AbstractContextManager[object]] = nullcontext

    def units(self, unit_ns: float) -> int:
        """How many units of `unit_ns` come closest to the block that is aimed at; two thirds of it at least."""
        return max(1, round(self.aim_ns / max(unit_ns, 1)))

    @property
    def aim_ns(self) -> float:
        """How long a block is to last."""
        return max(self.shortest_ns, RESOLUTIONS * self.clock.resolution_ns)

    def time(self, run: Callable[[], object], units: int, warm: int = 0) -> float:
        """Nanoseconds per unit of one block, after `warm` units that are not timed.

        Without `reset` the device is synchronized once, at the block's end. With it each unit is timed on its own,
        synchronized and added up, so that nothing of the reset is counted.
        """
        with _no_collection(), self.around():
            self._warm(run, warm)
            self.clock.sleep(FRESH_SLICE_S)
            total = self._separately(run, units) if self.reset else self._together(run, units)
        return max(total, 1) / units

    def _warm(self, run: Callable[[], object], units: int) -> None:
        """Units that are not timed, so that a block does not pay for what ran before it."""
        for _ in range(units):
            if self.reset:
                self.reset()
            run()

    def _together(self, run: Callable[[], object], units: int) -> int:
        self.synchronize()
        start = self.clock.now_ns()
        for _ in range(units):
            run()
        self.synchronize()
        return self.clock.now_ns() - start

    def _separately(self, run: Callable[[], object], units: int) -> int:
        total = 0
        for _ in range(units):
            if self.reset:
                self.reset()
            self.synchronize()
            start = self.clock.now_ns()
            run()
            self.synchronize()
            total += self.clock.now_ns() - start
        return total


@contextmanager
def _no_collection() -> Iterator[None]:
    """Garbage collection falls between blocks, where it was on at all."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
