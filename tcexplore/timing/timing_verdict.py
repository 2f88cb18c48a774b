"""Faster, slower, no difference or undecided: the rule that turns pairs into a verdict. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tcexplore.events import TimingVerdict
from tcexplore.timing.sample_statistics import Interval, mad, median, median_interval

SMALLEST_DIFFERENCE = 0.01
"""A difference below this is never called one, however narrow the interval."""

WIDEST_EQUAL = 0.1
"""Where the interval or the noise leaves room for more than this, nothing is known, not even that there is none."""

FLOOR_ERRORS = 3
"""The noise floor in standard errors of the median that the eager-eager control predicts.

A floor of three median absolute deviations of the control, which more pairs do not lower, was tried on the simulated
machines of the tests: of 800 runs of the same function it called none different, this one calls one; of 800 true
differences of 5 % it missed 81 %, this one misses 4 %.
"""

ERROR_OF_MADS = 1.858
"""Standard error of the median of n samples, in median absolute deviations / √n: √(π/2) × 1.4826."""

FEWEST_CONTROLS = 5
FEWEST_PAIRS = 15
FEWEST_SLOW_PAIRS = 6
"""Below this no 95 % interval of a median exists (the range of five samples covers 93.75 %); for slow calls."""


class Ratio(NamedTuple):
    """The speed-up eager/compiled and its interval."""

    value: float
    interval: Interval


def speedup(eager: Sequence[float], compiled: Sequence[float]) -> Ratio:
    """The median of the per-pair ratios and its 95 % interval, both taken on logarithms.

    Blocks at the same index are one pair. Raises `ValueError` when there is none.
    """
    logs = log_ratios(eager, compiled)
    low, high = median_interval(logs)
    return Ratio(math.exp(median(logs)), Interval(math.exp(low), math.exp(high)))


def noise_floor(first: Sequence[float], second: Sequence[float], pairs: int) -> float:
    """The deviation from 1 that the median ratio of `pairs` pairs shows by chance where both sides are eager.

    Three standard errors, of a median of pairs that scatter as the control's log ratios do. 0.02 is 2 %; 0 when there
    are no control pairs yet.
    """
    if not first:
        return 0.0
    error = ERROR_OF_MADS * mad(log_ratios(first, second)) / math.sqrt(pairs)
    return math.expm1(FLOOR_ERRORS * error)


def verdict(ratio: Ratio, floor: float, *, enough: bool) -> TimingVerdict:
    """`faster`, `slower`, `no difference` or `undecided`; `measuring` while there are not `enough` pairs.

    A difference is called one only if the interval excludes 1 and the ratio lies beyond both the noise floor and 1 %;
    it is called none only if the interval and the noise floor leave no room for one above 10 %.
    """
    if not enough:
        return "measuring"
    beyond = max(ratio.value, 1 / ratio.value) - 1 > max(SMALLEST_DIFFERENCE, floor)
    if not (beyond and ratio.interval.excludes(1.0)):
        room = max(floor, ratio.interval.high - 1, 1 / ratio.interval.low - 1)
        return "undecided" if room > WIDEST_EQUAL else "no difference"
    return "faster" if ratio.value > 1 else "slower"


def log_ratios(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """ln(first/second), pair by pair."""
    return [math.log(a / b) for a, b in zip(first, second, strict=True)]
