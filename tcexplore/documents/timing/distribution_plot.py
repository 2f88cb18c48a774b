"""Distributions as rows of bars on a common axis."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

BARS = " ▁▂▃▄▅▆▇█"

REACH = 1.5
"""Interquartile ranges by which the axis extends beyond the quartiles; values further out are outliers."""

MOST = 4096
"""Number of samples drawn, the newest ones."""


class Axis(NamedTuple):
    """An axis from `low` to `high`, in the unit of the samples, with `bins` cells."""

    low: float
    high: float
    bins: int


def fit_axis(series: Sequence[Sequence[float]], bins: int) -> Axis | None:
    """Return an axis for all series without their outliers, None if there is nothing to draw."""
    drawn = [sorted(values[-MOST:]) for values in series if values]
    if not drawn or bins < 1:
        return None
    fences = [_fences(values) for values in drawn]
    low, high = min(low for low, _ in fences), max(high for _, high in fences)
    if high == low:
        low, high = low - (abs(low) * 0.01 or 1.0), high + (abs(high) * 0.01 or 1.0)
    return Axis(low, high, bins)


def _fences(values: Sequence[float]) -> tuple[float, float]:
    """Return the smallest and the largest of sorted values without the outliers."""
    lower, upper = values[len(values) // 4], values[-1 - len(values) // 4]
    reach = REACH * (upper - lower)
    return min(v for v in values if v >= lower - reach), max(v for v in values if v <= upper + reach)


def draw_bars(values: Sequence[float], on: Axis) -> str:
    """Return one character per cell of the axis: the number of values in it, relative to the fullest cell."""
    counts = [0] * on.bins
    step = (on.high - on.low) / on.bins
    edges = [on.low + step * n for n in range(1, on.bins)]
    for value in values[-MOST:]:
        if on.low <= value <= on.high:
            counts[bisect_right(edges, value)] += 1
    most = max(counts)
    return "".join(BARS[0 if not n else max(1, round(n / most * (len(BARS) - 1)))] for n in counts) if most else ""


def count_outliers(values: Sequence[float], on: Axis) -> int:
    """Return how many of the drawn values lie beyond the axis."""
    return sum(not on.low <= value <= on.high for value in values[-MOST:])
