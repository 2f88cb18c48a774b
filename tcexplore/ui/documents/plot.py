"""Distributions as text: one row of bars for each, all on the same axis."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

BARS = " ▁▂▃▄▅▆▇█"

TAIL = 0.02
"""Share of the samples at each end that may lie beyond the axis, so that one outlier does not squeeze all others."""

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
    low = min(values[int(TAIL * (len(values) - 1))] for values in kept)
    high = max(values[-1 - int(TAIL * (len(values) - 1))] for values in kept)
    margin = (high - low) * 0.02 or abs(low) * 0.01 or 1.0
    return Axis(low - margin, high + margin, bins)


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
