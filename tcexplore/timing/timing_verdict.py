"""The rule that turns measured pairs into a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev
from typing import NamedTuple

from tcexplore.events import TimingVerdict
from tcexplore.timing.samples import Interval, effective_sample_size, mad, median, median_interval

MIN_DIFFERENCE = 0.01
"""A smaller difference never counts, no matter how narrow the interval is."""

MAX_UNCERTAINTY = 0.1
"""If interval or noise allow a larger difference than this, the verdict is undecided."""

CROWDED_CORES = 0.5
"""Cores by which threads and other processes together must exceed the machine before timings are inflated."""

FLOOR_ERRORS = 3
"""The noise floor in standard errors of the median, as predicted by the eager-eager control.

The alternative, three median absolute deviations of the control, does not shrink with more pairs. On the simulated
machines of the tests it reported none of 800 runs of the same function as different (this rule: one), but missed 81%
of 800 true differences of 5% (this rule: 4%).
"""

MEDIAN_ERROR_FACTOR = 1.858
"""Standard error of the median of n samples in median absolute deviations / √n: √(π/2) × 1.4826."""

MIN_SEGMENT_PAIRS = 5
MIN_SEGMENTS, MAX_SEGMENTS = 3, 12
"""Segments of time whose medians are compared, and the pairs of each."""

MIN_CONTROL_PAIRS = 5
MIN_PAIRS = 15
MIN_SLOW_PAIRS = 6
"""Minimum for slow calls: the range of five samples contains the median in only 93.75% of cases."""


class Speedup(NamedTuple):
    """The speedup eager/compiled and its interval."""

    value: float
    interval: Interval
    effective_pairs: int = 0
    """Number of independent pairs that would determine the ratio as well; see `effective_sample_size`."""


def estimate_speedup(eager: Sequence[float], compiled: Sequence[float]) -> Speedup:
    """Return the median of the per-pair ratios and its 95% interval, both computed on logarithms.

    Blocks at the same index are one pair. The interval is widened by what pairs near each other in time disagree with
    those of other times: see `effective_sample_size` and `overdispersion`. It is widened up to the most extreme of
    those times: one disturbed time among quiet ones has a large factor. Raises `ValueError` without pairs.
    """
    logs = log_ratios(eager, compiled)
    effective = effective_sample_size(logs)
    middle = median(logs)
    low, high = median_interval(logs, effective)
    medians = _segment_medians(logs)
    factor = overdispersion(logs, effective, medians)
    low = max(middle - (middle - low) * factor, min([low, *medians]))
    high = min(middle + (high - middle) * factor, max([high, *medians]))
    return Speedup(math.exp(middle), Interval(math.exp(low), math.exp(high)), effective)


def _segment_medians(logs: Sequence[float]) -> list[float]:
    """Return the median of each segment of time; the last pairs may be in none."""
    size = _segment_size(logs)
    return [median(logs[start : start + size]) for start in range(0, len(logs) - size + 1, size)]


def overdispersion(logs: Sequence[float], effective: int, medians: Sequence[float]) -> float:
    """Return the factor by which the `medians` of segments scatter more than their pairs explain; at least 1.

    A drift that both sides share leaves it at 1. A ratio that changes with the load of the machine raises it.
    """
    if len(medians) < MIN_SEGMENTS:
        return 1.0
    independent = max(1.0, effective * _segment_size(logs) / len(logs))
    expected = MEDIAN_ERROR_FACTOR * mad(logs) / math.sqrt(independent)
    return max(1.0, stdev(medians) / expected) if expected else 1.0


def _segment_size(logs: Sequence[float]) -> int:
    """Return how many pairs are in a segment."""
    return max(MIN_SEGMENT_PAIRS, math.ceil(len(logs) / MAX_SEGMENTS))


def noise_floor(first: Sequence[float], second: Sequence[float], pairs: int) -> float:
    """Return the deviation from 1 that the median ratio of `pairs` eager-eager pairs shows by chance (0.02 is 2%).

    That is three standard errors of the median, from the scatter of the control's log ratios; 0 without control pairs.
    """
    if not first:
        return 0.0
    error = MEDIAN_ERROR_FACTOR * mad(log_ratios(first, second)) / math.sqrt(pairs)
    return math.expm1(FLOOR_ERRORS * error)


def busy_threads(device: str, threads: int) -> int:
    """Return how many of torch's `threads` a call keeps busy: on a GPU, one launches, and the others wait."""
    return threads if device == "cpu" else 1


def is_crowded(busy_cores: float | None, threads: int, cores: int) -> bool:
    """Return whether other processes leave too few of the `cores` for this many threads; unknown is not crowded."""
    return busy_cores is not None and busy_cores + min(threads, cores) >= cores + CROWDED_CORES


def decide_verdict(speedup: Speedup, floor: float, *, enough: bool) -> TimingVerdict:
    """Return the verdict; it is `measuring` until there are `enough` pairs.

    `faster` and `slower` require that the interval excludes 1 and that the ratio exceeds both the noise floor and 1%;
    `no difference` requires that interval and noise floor rule out a difference above 10%. The load of the machine
    decides nothing by itself: it widens the interval by what it does to the pairs.
    """
    if not enough:
        return "measuring"
    low, high = speedup.interval
    significant = max(speedup.value, 1 / speedup.value) - 1 > max(MIN_DIFFERENCE, floor)
    if not (significant and speedup.interval.excludes(1.0)):
        uncertainty = max(floor, high - 1, 1 / low - 1)
        return "undecided" if uncertainty > MAX_UNCERTAINTY else "no difference"
    return "faster" if speedup.value > 1 else "slower"


class Decision(NamedTuple):
    """A verdict, and the evidence with which it was given."""

    verdict: TimingVerdict
    speedup: Speedup
    processes: int = 1
    """The number of processes that it is of."""


def keep_or_change(before: Decision | None, now: Decision) -> Decision:
    """Return the decision that holds after new evidence.

    `faster` and `slower` change only if either estimate lies outside the interval of the other. `no difference` says
    that the difference is small: a narrower interval that excludes 1 by `MIN_DIFFERENCE` may name it, but a wider one
    does not take it back. What is undecided changes with any verdict, and what was decided for one process by several:
    its interval did not know how much processes differ.
    """
    if before is None or before.verdict in ("undecided", "measuring") or now.verdict == before.verdict:
        return now
    if before.processes == 1 < now.processes:
        return now
    if before.verdict == "no difference":
        low, high = now.speedup.interval
        named = now.verdict in ("faster", "slower")
        return now if named and (low > 1 + MIN_DIFFERENCE or high < 1 / (1 + MIN_DIFFERENCE)) else before
    contradicted = before.speedup.interval.excludes(now.speedup.value)
    return now if contradicted and now.speedup.interval.excludes(before.speedup.value) else before


def log_ratios(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """Return ln(first/second) of each pair."""
    return [math.log(a / b) for a, b in zip(first, second, strict=True)]
