"""Sampling of pairs: both sides reach a steady state, blocks are sized to equal times, pairs come in random order."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import NamedTuple

from tcexplore.timing.allocator import page_fault_counter
from tcexplore.timing.blocks import BlockTime, BlockTimer
from tcexplore.timing.samples import Samples, Side, median
from tcexplore.timing.steady_state import NeverSteadyError, SteadyState, reach_steady_state
from tcexplore.timing.timing_verdict import MIN_CONTROL_PAIRS, MIN_PAIRS, MIN_SLOW_PAIRS
from tcexplore.timing.workload import Workload

RESIZE_FACTOR = 1.5
"""Blocks are resized if a unit is this many times as fast as in the warm-up.

On a busy machine every warm-up block may be interrupted, and blocks of unequal length are interrupted unequally often.
"""

MAX_DISCARDED = 20
"""Maximum number of pairs discarded in a row."""

DEVICE_BATCH = 3
"""Samples of the device's span per estimate."""

SLOW_UNIT_NS = 100_000_000
"""For units this long, one sample of the device's span per estimate."""

DEVICE_SAMPLES = 30


class PlannedPair(NamedTuple):
    """The kind and order of a pair."""

    control: bool
    """Compares eager with eager."""
    swapped: bool
    """Runs the second side first."""


def planned_pairs(seed: int = 0, *, controls: bool = True) -> Iterator[PlannedPair]:
    """Yield an endless random but balanced sequence of pairs; the same seed yields the same sequence.

    The first eleven have as many control and measured pairs as a first verdict needs. Of the next twenty, one in four
    is a control, then one in ten, or none without `controls`. Of every four pairs of a kind, two are swapped.
    """
    rng = random.Random(seed)
    swaps = {control: _balanced_swaps(rng) for control in (True, False)}
    for of_control, measured in chain([(MIN_CONTROL_PAIRS, MIN_SLOW_PAIRS), (5, 15)], repeat((1, 9))):
        batch = [True] * (of_control if controls else 0) + [False] * measured
        rng.shuffle(batch)
        for control in batch:
            yield PlannedPair(control, next(swaps[control]))


def _balanced_swaps(rng: random.Random) -> Iterator[bool]:
    orders = [True, True, False, False]
    while True:
        rng.shuffle(orders)
        yield from orders


class Sampler:
    """Measures pairs of blocks of one workload into `samples`, in microseconds per call.

    The blocks of both sides take equally long, so that interference affects both sides equally often. They are
    resized if a unit is much faster than measured before.
    """

    def __init__(
        self,
        workload: Workload,
        timer: BlockTimer,
        compile_count: Callable[[], int],
        seed: int = 0,
        *,
        controls: bool = True,
    ) -> None:
        """`controls` is whether some pairs compare eager with eager."""
        self.samples = Samples()
        self._page_faults = page_fault_counter() if workload.device.type == "cpu" else None
        self._workload = workload
        self._timer, self._later_timer = timer.for_first_pairs(), timer
        self._compile_count = compile_count
        self._plan = planned_pairs(seed, controls=controls)
        self._discarded_in_a_row = 0
        self.reach_steady_state()

    def reach_steady_state(self) -> None:
        """Warm up both sides and size their blocks. Raises `NeverSteadyError`."""
        self.eager: SteadyState = reach_steady_state(self._timer, self._workload.eager, self._compile_count)
        self.compiled: SteadyState = reach_steady_state(self._timer, self._workload.compiled, self._compile_count)
        self._size_blocks()

    def _size_blocks(self) -> None:
        self._sized_for = self.eager.unit_ns, self.compiled.unit_ns
        self.eager_block, self.compiled_block = block_sizes(*self._sized_for, self._timer.target_ns)

    def warm_up(self) -> None:
        """Run one untimed block of each side after a rest; skip it for long blocks."""
        if self.eager.unit_ns * self.eager_block.units > SLOW_NS:
            return
        self._timer.time_block(self._workload.eager, *self.eager_block)
        self._timer.time_block(self._workload.compiled, *self.compiled_block)

    def measure_pair(self) -> None:
        """Measure the next pair. If it compiled something, discard it and reach a steady state again.

        Raises `NeverSteadyError` after `MAX_DISCARDED` discarded pairs in a row.
        """
        pair = next(self._plan)
        count = self._compile_count()
        if pair.swapped:
            second = self._time_second(pair.control)
            first = self._time_eager()
        else:
            first = self._time_eager()
            second = self._time_second(pair.control)
        if self._compile_count() != count:
            self._discard()
            return
        self._discarded_in_a_row = 0
        pairs = self.samples.control if pair.control else self.samples.measured
        pairs.add(self._us_per_call(first.unit_ns), self._us_per_call(second.unit_ns))
        self._note_fastest("eager", first)
        self._note_fastest("control" if pair.control else "compiled", second)
        eager_ns, compiled_ns = self._sized_for
        if self._timer is not self._later_timer and len(self.samples.measured) >= MIN_PAIRS:
            self._timer = self._later_timer
            self._size_blocks()
        elif eager_ns > RESIZE_FACTOR * self.eager.unit_ns or compiled_ns > RESIZE_FACTOR * self.compiled.unit_ns:
            self._size_blocks()

    def _time_block(self, side: Side, size: BlockSize) -> BlockTime:
        """Time one block, and note its page faults."""
        run = self._workload.eager if side == "eager" else self._workload.compiled
        if self._page_faults is None:
            return self._timer.time_block(run, *size)
        before = self._page_faults()
        block = self._timer.time_block(run, *size)
        calls = (size.units + size.warm) * self._workload.calls
        self.samples.note_page_faults(side, (self._page_faults() - before) / calls)
        return block

    def _time_eager(self) -> BlockTime:
        block = self._time_block("eager", self.eager_block)
        self.eager = self.eager._replace(unit_ns=min(block.unit_ns, self.eager.unit_ns))
        return block

    def _time_second(self, control: bool) -> BlockTime:
        if control:
            return self._time_eager()
        block = self._time_block("compiled", self.compiled_block)
        self.compiled = self.compiled._replace(unit_ns=min(block.unit_ns, self.compiled.unit_ns))
        return block

    def _note_fastest(self, side: Side, block: BlockTime) -> None:
        if block.fastest_ns is not None:
            self.samples.note_fastest(side, self._us_per_call(block.fastest_ns))

    def _us_per_call(self, unit_ns: float) -> float:
        return unit_ns / 1e3 / self._workload.calls

    def _discard(self) -> None:
        self.samples.discarded += 1
        self._discarded_in_a_row += 1
        if self._discarded_in_a_row >= MAX_DISCARDED:
            raise NeverSteadyError(f"{MAX_DISCARDED} timed pairs in a row recompiled: there is no steady state")
        self.reach_steady_state()


class DeviceSpanSampler:
    """Samples how long the device takes for a call, gaps between kernels included; a few samples per estimate.

    `device_span` is that of `TimedMachine`.
    """

    def __init__(self, device_span: Callable[[Callable[[], object], float], float] | None, workload: Workload) -> None:
        self._device_span = device_span
        self._workload = workload
        self._eager: list[float] = []
        self._compiled: list[float] = []

    @property
    def eager_us(self) -> float | None:
        return median(self._eager) if self._eager else None

    @property
    def compiled_us(self) -> float | None:
        return median(self._compiled) if self._compiled else None

    def sample(self, sampler: Sampler) -> None:
        """Take a few more samples of each side, up to `DEVICE_SAMPLES`."""
        if self._device_span is None or len(self._eager) >= DEVICE_SAMPLES:
            return
        for _ in range(1 if sampler.eager.unit_ns > SLOW_UNIT_NS else DEVICE_BATCH):
            self._eager.append(self._us_per_call(self._device_span, self._workload.eager, sampler.eager.unit_ns))
            self._compiled.append(
                self._us_per_call(self._device_span, self._workload.compiled, sampler.compiled.unit_ns)
            )

    def _us_per_call(
        self, time: Callable[[Callable[[], object], float], float], run: Callable[[], object], wall_ns: float
    ) -> float:
        return time(self._workload.in_context(run), wall_ns) / 1e3 / self._workload.calls


MAX_STRETCH = 1.75
"""A block may be this many times the target length if that makes both sides more equal.

Longer blocks reach into the next time slice: beside four simulated busy processes on two cores, blocks of up to three
times the length caused a false verdict in 6 of 100 runs of the same function, and these in one.
"""

TOLERANCE = 0.02
"""Blocks whose lengths differ by less count as equal."""

WARM_UP_NS = 5_000_000
"""Units longer than this need no untimed unit before them: a cold start matters little."""

SLOW_NS = 100_000_000
"""In a block this long, interference averages out, so a second unit is unnecessary."""


class BlockSize(NamedTuple):
    """The size of one side's block."""

    units: int
    """Timed units."""
    warm: int
    """Untimed units before them."""


def block_sizes(eager_ns: float, compiled_ns: float, target_ns: float) -> tuple[BlockSize, BlockSize]:
    """Return block sizes for units of these durations; a block takes about `target_ns`, or one unit if that is longer.

    Interference (a cold start, a lost time slice) adds the same share to both sides only if their blocks and warm-ups
    take equally long: both sides warm up for the duration of the longer unit.
    """
    eager_ns, compiled_ns = max(eager_ns, 1.0), max(compiled_ns, 1.0)
    longer, shorter = max(eager_ns, compiled_ns), min(eager_ns, compiled_ns)
    block_ns = longer * _units_of_longer(longer, shorter, target_ns)
    warm_up_ns = longer if longer <= WARM_UP_NS else 0.0
    eager, compiled = (
        BlockSize(_nearest(block_ns, unit_ns), round(warm_up_ns / unit_ns)) for unit_ns in (eager_ns, compiled_ns)
    )
    return eager, compiled


def _units_of_longer(longer: float, shorter: float, target_ns: float) -> int:
    """Return the smallest count that whole units of the shorter side match within `TOLERANCE`, else the best match."""
    smallest = max(1, round(target_ns / longer))
    candidates = range(smallest, max(smallest, int(MAX_STRETCH * target_ns / longer)) + 1)
    return next(
        (units for units in candidates if _mismatch(units * longer, shorter) <= TOLERANCE),
        min(candidates, key=lambda units: _mismatch(units * longer, shorter)),
    )


def _mismatch(block_ns: float, unit_ns: float) -> float:
    return abs(_nearest(block_ns, unit_ns) * unit_ns / block_ns - 1)


def _nearest(block_ns: float, unit_ns: float) -> int:
    """Return the number of units closest to a block; for a slow block, the number that fits into it."""
    fit = math.floor if block_ns > SLOW_NS else round
    return max(1, fit(block_ns / unit_ns))
