"""Distributions as text: one row of bars for each, all on the same axis."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

BARS = " ▁▂▃▄▅▆▇█"

REACH = 1.5
"""How many times the middle half's width the axis goes beyond it at each end: outliers must not squeeze all others."""

MOST = 4096
"""Newest samples that are drawn."""


class Axis(NamedTuple):
    """`low` and `high` in the samples' unit; `bins` cells between them."""

    low: float
    high: float
    bins: int


def axis(series: Sequence[Sequence[float]], bins: int) -> Axis | None:
    """An axis that all series fit on but for their tails; None where there is nothing to draw."""
    kept = [sorted(values[-MOST:]) for values in series if values]
    if not kept or bins < 1:
        return None
    fences = [_fences(values) for values in kept]
    low, high = min(low for low, _ in fences), max(high for _, high in fences)
    if high == low:
        low, high = low - (abs(low) * 0.01 or 1.0), high + (abs(high) * 0.01 or 1.0)
    return Axis(low, high, bins)


def _fences(values: Sequence[float]) -> tuple[float, float]:
    """The smallest and the largest of sorted values that are no outliers."""
    lower, upper = values[len(values) // 4], values[-1 - len(values) // 4]
    reach = REACH * (upper - lower)
    return min(v for v in values if v >= lower - reach), max(v for v in values if v <= upper + reach)


def bars(values: Sequence[float], on: Axis) -> str:
    """One character per cell of the axis: how many of the values lie in it, the fullest cell highest."""
    counts = [0] * on.bins
    step = (on.high - on.low) / on.bins
    edges = [on.low + step * n for n in range(1, on.bins)]
    for value in values[-MOST:]:
        if on.low <= value <= on.high:
            counts[bisect_right(edges, value)] += 1
    most = max(counts)
    return "".join(BARS[0 if not n else max(1, round(n / most * (len(BARS) - 1)))] for n in counts) if most else ""


def beyond(values: Sequence[float], on: Axis) -> int:
    """How many of the drawn values lie beyond the axis."""
    return sum(not on.low <= value <= on.high for value in values[-MOST:])
