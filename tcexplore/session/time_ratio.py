"""Ratios of times with their intervals: of a compiled call in two runs, absolute and relative to eager."""

from __future__ import annotations

from typing import NamedTuple

from tcexplore import events as ev


class Range(NamedTuple):
    """A figure with its 95% interval."""

    value: float
    low: float
    high: float

    @property
    def verdict(self) -> ev.TimingVerdict:
        """The verdict on a ratio of times, the later one below: its interval decides."""
        return "faster" if self.low > 1 else "slower" if self.high < 1 else "undecided"


EVEN_RATIO = 1.25
"""Largest ratio of two eager times of the same calls that counts as even: the machine itself may differ so much."""


def is_even(before: ev.TimingEstimate, after: ev.TimingEstimate) -> bool:
    """Return whether eager calls take about as long in both runs."""
    return 1 / EVEN_RATIO <= before.eager_us / after.eager_us <= EVEN_RATIO


def call_ratio(before: ev.TimingEstimate, after: ev.TimingEstimate) -> Range | None:
    """Return the time of a compiled call before over that after, from two runs; None if they timed something else.

    Each side is as uncertain as its speedup, which has the scatter between processes in it. If eager calls take about
    as long in both runs, the interval reaches to the ratio relative to them: the machine may have another speed.
    """
    if (before.unit, before.device, before.calls, before.train) != (after.unit, after.device, after.calls, after.train):
        return None
    if "measuring" in (before.verdict, after.verdict) or min(before.low, after.low) <= 0:
        return None
    ratio = before.compiled_us / after.compiled_us
    low = ratio * (before.speedup / before.high) * (after.low / after.speedup)
    high = ratio * (before.speedup / before.low) * (after.high / after.speedup)
    drift = before.eager_us / after.eager_us if is_even(before, after) else 1.0
    return Range(ratio, low / max(1.0, drift), high / min(1.0, drift))


def relative_ratio(before: ev.TimingEstimate, after: ev.TimingEstimate) -> Range:
    """Return the speedup over eager after over that before, of two runs whose times `call_ratio` compares."""
    return Range(after.speedup / before.speedup, after.low / before.high, after.high / before.low)
