"""The pairs measured so far, their conditions and their statistics."""

from __future__ import annotations

import math
import operator
import random
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product, takewhile, tee
from typing import Literal, NamedTuple

from tcexplore.events import PairsMeasured
from tcexplore.events.timing_events import MemoryState, TimedUnit

Side = Literal["eager", "compiled", "control"]
"""`control` is the second side of a control pair, which is eager too."""

MAX_PAIRS = 2_000
MAX_CONTROL_PAIRS = 500


class Block(NamedTuple):
    """The time of a block of calls or steps."""

    us: float
    """Microseconds of one of them."""
    size: float = 0.0
    """Elements in the inputs of one of them; 0 if all have the same inputs."""


NEAR, NEAR_AT_END = 0.05, 0.2
"""By what share sizes of a pair may differ at once, and when no block follows.

Blocks of many steps on a GPU have sizes that are never equal. With 0.05, six such pairs of blocks give 3.5 pairs
instead of 2, and a ratio with a deviation of 1.5% instead of 1%.
"""

MOST_WAITING = 4
"""Blocks of a side that may wait for one of their size on the other side."""


@dataclass(slots=True)
class Pairs:
    """Pairs of blocks in microseconds per call; beyond `limit`, the oldest are dropped.

    Two blocks are a pair if their inputs have about the same size: a batch of other lengths takes another time on both
    sides, which says nothing about their ratio. Where sizes seldom repeat, those nearest to each other are a pair.
    """

    limit: int
    control: bool
    """Whether these pairs compare eager with eager."""
    first: deque[float] = field(init=False)
    second: deque[float] = field(init=False)
    taken: int = 0
    """All pairs so far, dropped ones included."""
    _sizes: set[float] = field(default_factory=set)
    """Sizes of the blocks, until they differ."""
    _unsent: list[tuple[float, float]] = field(default_factory=list)
    _waiting: tuple[list[Block], list[Block]] = field(default_factory=lambda: ([], []))
    """Blocks of each side, newest first, without one of their size on the other."""

    def __post_init__(self) -> None:
        self.first = deque(maxlen=self.limit)
        self.second = deque(maxlen=self.limit)

    def __len__(self) -> int:
        return len(self.first)

    @property
    def varying(self) -> bool:
        """Whether the sizes of the blocks differ: then so do the times of each side, without outliers or a drift."""
        return len(self._sizes) > 1

    def add(self, first: float, second: float) -> None:
        self.first.append(first)
        self.second.append(second)
        self.taken += 1
        self._unsent.append((first, second))

    def add_blocks(self, firsts: Sequence[Block], seconds: Sequence[Block]) -> None:
        """Add blocks of each side; each is paired with the newest of its size on the other side."""
        if not self.varying:
            self._sizes.update(block.size for block in (*firsts, *seconds))
        for waiting, blocks in zip(self._waiting, (firsts, seconds), strict=True):
            waiting[:0] = reversed(blocks)
        self._pair_waiting(NEAR, MOST_WAITING)
        for waiting in self._waiting:
            del waiting[2 * MOST_WAITING :]

    def add_waiting(self) -> None:
        """Pair the blocks that still wait with some of nearly their size: no other will follow."""
        self._pair_waiting(NEAR_AT_END, 2 * MOST_WAITING)

    def _pair_waiting(self, near: float, most_waiting: int) -> None:
        while all(self._waiting):
            nearest = min(product(*self._waiting), key=_difference_in_size)
            if _difference_in_size(nearest) > near and min(map(len, self._waiting)) <= most_waiting:
                break
            for waiting, block in zip(self._waiting, nearest, strict=True):
                waiting.remove(block)
            self.add(*(block.us for block in nearest))

    def typical_us(self) -> tuple[float, float]:
        """Return the typical time of each side: the median, of the middle third of the pairs if sizes vary.

        Of steps of two sizes, the median may be a small one on one side and a large one on the other. Raises
        `ValueError` without pairs.
        """
        pairs = list(zip(self.first, self.second, strict=True))
        if self.varying:
            left_out = len(pairs) // 3
            pairs = sorted(pairs, key=math.prod)[left_out : len(pairs) - left_out]
        return median([first for first, _ in pairs]), median([second for _, second in pairs])

    def take_unsent(self) -> PairsMeasured | None:
        """Return the pairs since the last call, or None if there are none."""
        if not self._unsent:
            return None
        eager, compiled = zip(*self._unsent, strict=True)
        self._unsent.clear()
        return PairsMeasured(eager_us=eager, compiled_us=compiled, control=self.control)


def _difference_in_size(blocks: tuple[Block, Block]) -> float:
    first, second = (math.log1p(block.size) for block in blocks)
    return abs(first - second)


@dataclass(slots=True)
class Samples:
    """The measured pairs (eager, compiled) and the control pairs (eager, eager)."""

    measured: Pairs = field(default_factory=lambda: Pairs(MAX_PAIRS, control=False))
    control: Pairs = field(default_factory=lambda: Pairs(MAX_CONTROL_PAIRS, control=True))
    busy_cores: float | None = None
    """Cores that other programs used, in a process that was timed beside this one; None if unknown."""
    discarded: int = 0
    """Pairs dropped because something was compiled during them."""
    page_faults: dict[Side, deque[float]] = field(default_factory=dict)
    """Minor page faults per call of the newest blocks of each side."""
    fastest_us: dict[Side, float] = field(default_factory=dict)
    """The fastest unit of each side, in microseconds per call, if units are timed one by one."""

    def note_fastest(self, side: Side, us: float) -> None:
        """Note the fastest unit of a block."""
        self.fastest_us[side] = min(us, self.fastest_us.get(side, us))

    def note_page_faults(self, side: Side, per_call: float) -> None:
        """Note the page faults of a block."""
        self.page_faults.setdefault(side, deque(maxlen=MAX_PAIRS)).append(per_call)

    def median_page_faults(self, side: Side) -> float | None:
        """Return the median of the blocks; None if page faults are not counted."""
        return median(self.page_faults[side]) if self.page_faults.get(side) else None

    @property
    def full(self) -> bool:
        return len(self.measured) == MAX_PAIRS

    def take_unsent(self) -> list[PairsMeasured]:
        """Return the pairs since the last call."""
        return [chunk for pairs in (self.control, self.measured) if (chunk := pairs.take_unsent())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The conditions of a measurement."""

    threads: int
    device: str
    train: bool
    calls: int
    block: int
    block_compiled: int
    cores: int = 1
    busy_cores: float | None = None
    governor: str = ""
    resets: bool = False
    """Whether inputs or gradients are reset before each unit."""
    memory: MemoryState = "as the system does"
    """That of this process."""
    processes_to_come: int = 0
    """Other processes that are still to be timed."""
    warm_up_spread: float = 0.0
    """Relative difference of the last warm-up rounds (0.03 is 3%)."""
    slow: bool = False
    """Set after the time for a first answer; fewer pairs are enough then."""
    eager_device_span_us: float | None = None
    compiled_device_span_us: float | None = None
    reserved_core: int | None = None
    """The core reserved for the terminal app; None without a spare core."""
    unit: TimedUnit = "call"


RESAMPLES = 2_000
CONFIDENCE = 0.97
"""The nominal confidence of the interval that is reported as 95%, since real machines deviate from the model.

Of 180 measured runs with a known true ratio, the nominal 95% interval contained it in 96%; the 97% interval, a tenth
wider, in 98%.
"""

TAIL = (1 - CONFIDENCE) / 2 * (RESAMPLES - 1)
"""Position of the interval's ends among the medians of the resamples, counted from either end."""

_ENDMOST = math.floor(TAIL) + 2
"""Medians at either end that decide the end of the interval."""

SEED = 0

MIN_FOR_CORRELATION = 10
"""Minimum samples for a meaningful autocorrelation."""

MIN_EFFECTIVE = 6
"""Lower bound of the effective sample size: the range of six samples contains the median in 97% of cases."""

LAG_DIVISOR = 4
"""Autocorrelations are computed up to a lag of the sample count divided by this."""


class Interval(NamedTuple):
    """A confidence interval, both ends included."""

    low: float
    high: float

    def excludes(self, value: float) -> bool:
        return not self.low <= value <= self.high


class Outliers(NamedTuple):
    """The number of samples beyond Tukey's fences."""

    mild: int
    """Beyond 1.5 interquartile ranges."""
    severe: int
    """Beyond 3 interquartile ranges."""

    @property
    def total(self) -> int:
        return self.mild + self.severe


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0 to 1) of the samples lie, interpolated. Raises `ValueError` if empty."""
    if not values:
        raise ValueError("no samples")
    return _interpolate(sorted(values), share * (len(values) - 1))


def _interpolate(ordered: Sequence[float], position: float) -> float:
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def median(values: Sequence[float]) -> float:
    """Return the median of the samples. Raises `ValueError` if empty."""
    return percentile(values, 0.5)


def mad(values: Sequence[float]) -> float:
    """Return the unscaled median absolute deviation. Raises `ValueError` if empty."""
    middle = median(values)
    return median([abs(value - middle) for value in values])


def half_medians(values: Sequence[float]) -> tuple[float, float]:
    """Return the medians of the first and second half of at least two samples in the order of measurement."""
    middle = len(values) // 2
    return median(values[:middle]), median(values[middle:])


def count_outliers(values: Sequence[float]) -> Outliers:
    """Count the samples beyond Tukey's fences; fewer than four samples have none."""
    if len(values) < 4:
        return Outliers(0, 0)
    low, high = percentile(values, 0.25), percentile(values, 0.75)
    spread = high - low

    def beyond(fence: float) -> int:
        return sum(value < low - fence * spread or value > high + fence * spread for value in values)

    severe = beyond(3.0)
    return Outliers(beyond(1.5) - severe, severe)


def median_interval(values: Sequence[float], effective: int | None = None) -> Interval:
    """Return the 95% interval of the median: the union of the bootstrap and the order-statistics interval.

    The bootstrap alone is too narrow for few samples: with 15 it contains the true median in 88% of cases. Order
    statistics contain it with `CONFIDENCE` for any distribution. Both use `effective` samples, by default
    `effective_sample_size`. The interval of up to six samples is their range. Raises `ValueError` if empty.
    """
    effective = effective_sample_size(values) if effective is None else effective
    bootstrap, exact = bootstrap_median(values, effective), _order_interval(values, effective)
    return Interval(min(bootstrap.low, exact.low), max(bootstrap.high, exact.high))


def bootstrap_median(values: Sequence[float], effective: int | None = None) -> Interval:
    """Return the percentile bootstrap interval of the median from `RESAMPLES` seeded resamples.

    A resample draws `effective` samples with replacement, by default `effective_sample_size`. Its middle order
    statistics are drawn directly, so the cost does not grow with the number of samples. Raises `ValueError` if empty.
    """
    if not values:
        raise ValueError("no samples")
    ordered, count = sorted(values), len(values)
    ordered.append(ordered[-1])  # for a rank that is rounded to 1
    smallest, greatest = (
        [(ordered[int(low * count)] + ordered[int(high * count)]) / 2 for low, high in ranks]
        for ranks in _endmost_middles(effective_sample_size(values) if effective is None else effective)
    )
    return Interval(_interpolate(sorted(smallest), TAIL), _interpolate(sorted(greatest, reverse=True), TAIL))


def effective_sample_size(values: Sequence[float]) -> int:
    """Return how many independent samples would determine the median as well as these, given in order of measurement.

    Successive samples on the same side of the median more often than by chance carry less information: their number is
    divided by 1 + 2 × the sum of the autocorrelations of the side, up to the first that is not positive (the variance
    of the mean of a stationary series). Autocorrelations about the samples' own median are biased downward, so each r
    is replaced by r + (1 - r) × the uncorrected inflation / count. The result never exceeds the number of samples.
    """
    count = len(values)
    middle = median(values)
    sides = [(value > middle) - (value < middle) for value in values]
    power = sum(side * side for side in sides)
    if count < MIN_FOR_CORRELATION or not power:
        return count
    lags = range(1, count // LAG_DIVISOR + 1)
    # Computed lazily: `_inflation` seldom needs more than the first few.
    uncorrected, correlations = tee(sum(map(operator.mul, sides, sides[lag:])) / power for lag in lags)
    bias = _inflation(uncorrected) / count
    return max(MIN_EFFECTIVE, round(count / _inflation(r + (1 - r) * bias for r in correlations)))


def _inflation(correlations: Iterable[float]) -> float:
    """Return the factor by which autocorrelations increase the variance of the mean."""
    positive = takewhile(lambda correlation: correlation > 0, correlations)
    return 1 + 2 * sum(positive)


def _order_interval(values: Sequence[float], effective: int) -> Interval:
    ordered = sorted(values)
    rank = _lowest_rank(effective) * len(ordered) // effective
    return Interval(ordered[rank], ordered[-1 - rank])


@lru_cache(maxsize=1024)
def _lowest_rank(count: int) -> int:
    """Return the highest rank (from 0) that exceeds the true median with probability at most (1 - `CONFIDENCE`) / 2."""
    one_in = round(2 / (1 - CONFIDENCE))
    all_outcomes, outcomes, rank_outcomes, rank = 2**count, 0, 1, 0
    while (outcomes + rank_outcomes) * one_in <= all_outcomes:
        outcomes += rank_outcomes
        rank_outcomes = rank_outcomes * (count - rank) // (rank + 1)
        rank += 1
    return max(0, rank - 1)


class _Middle(NamedTuple):
    """The two samples whose mean is the median of a resample, as ranks (0 to 1) among all samples."""

    low: float
    high: float


@lru_cache(maxsize=1024)  # to draw them again would take most of an estimate's time
def _endmost_middles(count: int) -> tuple[list[_Middle], list[_Middle]]:
    """Return the resamples that can have one of the `_ENDMOST` smallest medians, and those with one of the greatest.

    Whatever the samples are, `_ENDMOST` medians are at most the sample at the rank `low_limit`. A resample whose lower
    rank is greater has no smaller median.
    """
    middles = _resampled_middles(count)
    low_limit = sorted(middle.high for middle in middles)[_ENDMOST - 1]
    high_limit = sorted(middle.low for middle in middles)[-_ENDMOST]
    return (
        [middle for middle in middles if middle.low <= low_limit],
        [middle for middle in middles if middle.high >= high_limit],
    )


def _resampled_middles(count: int) -> list[_Middle]:
    """Return the middle of each resample.

    The k-th smallest of `count` uniform draws follows Beta(k, count - k + 1), and the next smaller one is the largest
    of k - 1 uniform draws below it. Scaled to ranks, this is equivalent to drawing and sorting `count` samples.
    """
    rng = random.Random(SEED)
    upper = count // 2 + 1
    middles: list[_Middle] = []
    for _ in range(RESAMPLES):
        high = rng.betavariate(upper, count - upper + 1)
        middles.append(_Middle(high if count % 2 else high * rng.random() ** (1 / (upper - 1)), high))
    return middles
