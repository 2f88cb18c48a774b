"""The figures drawn from samples: medians, spread, outliers, drift, an interval of the median. No torch, no clock."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

RESAMPLES = 2_000
CONFIDENCE = 0.95
SEED = 0


class Interval(NamedTuple):
    """A confidence interval, both ends included."""

    low: float
    high: float

    def excludes(self, value: float) -> bool:
        return not self.low <= value <= self.high


class Outliers(NamedTuple):
    """How many samples lie beyond Tukey's fences: `mild` beyond 1.5, `severe` beyond 3 interquartile ranges."""

    mild: int
    severe: int

    @property
    def total(self) -> int:
        return self.mild + self.severe


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the samples lie, interpolated. Raises `ValueError` when empty."""
    if not values:
        raise ValueError("no samples")
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def median(values: Sequence[float]) -> float:
    """The middle of the samples. Raises `ValueError` when empty."""
    return percentile(values, 0.5)


def mad(values: Sequence[float]) -> float:
    """The median absolute deviation from the median, not scaled. Raises `ValueError` when empty."""
    middle = median(values)
    return median([abs(value - middle) for value in values])


def halves(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the first and of the second half, in the order of measurement. Needs two samples or more."""
    middle = len(values) // 2
    return median(values[:middle]), median(values[middle:])


def outliers(values: Sequence[float]) -> Outliers:
    """Samples beyond Tukey's fences. They are counted, never dropped; fewer than four samples have none."""
    if len(values) < 4:
        return Outliers(0, 0)
    low, high = percentile(values, 0.25), percentile(values, 0.75)
    spread = high - low

    def beyond(fence: float) -> int:
        return sum(value < low - fence * spread or value > high + fence * spread for value in values)

    severe = beyond(3.0)
    return Outliers(beyond(1.5) - severe, severe)


def median_interval(values: Sequence[float]) -> Interval:
    """The 95 % interval of the median: by bootstrap, and no narrower than the order statistics allow.

    The bootstrap alone is too narrow for few samples (15 of them: it holds the true median in 88 % of cases); the
    order statistics hold it in 95 % or more whatever the distribution. Fewer than six samples: their range, which
    holds it less often than that. Raises `ValueError` when empty.
    """
    bootstrap, exact = bootstrap_median(values), _order_interval(values)
    return Interval(min(bootstrap.low, exact.low), max(bootstrap.high, exact.high))


def bootstrap_median(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The percentile bootstrap interval of the median, from `RESAMPLES` seeded resamples: same samples, same interval.

    A resample draws as many samples as there are, with replacement. Its middle order statistics are drawn directly
    (see `_resampled_middles`), so the cost does not grow with the number of samples. Raises `ValueError` when empty.
    """
    if not values:
        raise ValueError("no samples")
    ordered = sorted(values)
    medians = [(ordered[low] + ordered[high]) / 2 for low, high in _resampled_middles(len(ordered))]
    tail = (1 - confidence) / 2
    return Interval(percentile(medians, tail), percentile(medians, 1 - tail))


def _order_interval(values: Sequence[float]) -> Interval:
    ordered = sorted(values)
    rank = _lowest_rank(len(ordered))
    return Interval(ordered[rank], ordered[-1 - rank])


@lru_cache(maxsize=1024)
def _lowest_rank(count: int) -> int:
    """The highest rank (from 0) that the true median lies below in at most half of what `CONFIDENCE` leaves over."""
    one_in = round(2 / (1 - CONFIDENCE))
    all_outcomes, outcomes, of_this_rank, rank = 2**count, 0, 1, 0
    while (outcomes + of_this_rank) * one_in <= all_outcomes:
        outcomes += of_this_rank
        of_this_rank = of_this_rank * (count - rank) // (rank + 1)
        rank += 1
    return max(0, rank - 1)


@lru_cache(maxsize=64)
def _resampled_middles(count: int) -> tuple[tuple[int, int], ...]:
    """For each resample of `count` samples, the ranks (from 0) of the two that its median is the mean of.

    The k-th smallest of `count` uniform draws follows Beta(k, count - k + 1), and the one below it is the largest of
    k - 1 uniform draws under it. Scaled to ranks, that is what drawing `count` samples and sorting them would give.
    """
    rng = random.Random(SEED)
    upper = count // 2 + 1

    def middles() -> tuple[int, int]:
        high = rng.betavariate(upper, count - upper + 1)
        low = high if count % 2 else high * rng.random() ** (1 / (upper - 1))
        return min(int(low * count), count - 1), min(int(high * count), count - 1)

    return tuple(middles() for _ in range(RESAMPLES))
