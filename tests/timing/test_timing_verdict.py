from __future__ import annotations

import math
import random
import statistics as stdlib

import pytest

from tcexplore.events import TimingVerdict
from tcexplore.timing.samples import Interval, median
from tcexplore.timing.timing_verdict import (
    Decision,
    Speedup,
    decide_verdict,
    estimate_speedup,
    keep_or_change,
    noise_floor,
)


@pytest.mark.parametrize(
    ("value", "low", "high", "floor", "expected"),
    [
        (1.5, 1.4, 1.6, 0.02, "faster"),
        (0.7, 0.6, 0.8, 0.02, "slower"),
        (1.5, 0.9, 2.0, 0.02, "undecided"),
        (1.3, 1.2, 1.4, 0.5, "undecided"),
        (3.0, 2.9, 3.1, 0.5, "faster"),
        (1.02, 0.98, 1.05, 0.02, "no difference"),
        (1.05, 1.04, 1.06, 0.08, "no difference"),
        (1.009, 1.008, 1.0095, 0.0, "no difference"),
        (0.995, 0.994, 0.996, 0.0, "no difference"),
        (1.0, 1.0, 1.0, 0.0, "no difference"),
    ],
    ids=[
        "faster",
        "slower",
        "wide interval",
        "high floor",
        "above a high floor",
        "narrow interval",
        "below the floor",
        "below 1%",
        "1% slower",
        "equal",
    ],
)
def test_a_difference_must_exceed_interval_floor_and_one_percent(
    value: float, low: float, high: float, floor: float, expected: str
):
    assert decide_verdict(Speedup(value, Interval(low, high)), floor, enough=True) == expected


def test_too_few_pairs_have_no_verdict():
    assert decide_verdict(Speedup(3.0, Interval(2.9, 3.1)), 0.0, enough=False) == "measuring"


def decision(verdict: TimingVerdict, value: float, low: float, high: float) -> Decision:
    return Decision(verdict, Speedup(value, Interval(low, high)))


@pytest.mark.parametrize(
    ("before", "now", "holds"),
    [
        (None, decision("faster", 1.5, 1.4, 1.6), "faster"),
        (decision("undecided", 1.5, 0.9, 2.0), decision("faster", 1.5, 1.4, 1.6), "faster"),
        (decision("faster", 1.5, 1.4, 1.6), decision("undecided", 1.45, 0.9, 2.0), "faster"),
        (decision("faster", 1.5, 1.4, 1.6), decision("undecided", 1.2, 0.9, 1.6), "faster"),
        (decision("faster", 1.5, 1.4, 1.6), decision("undecided", 1.1, 0.9, 1.3), "undecided"),
        (decision("faster", 1.03, 1.01, 1.05), decision("no difference", 1.0, 0.99, 1.01), "no difference"),
        (decision("faster", 1.03, 1.01, 1.05), decision("no difference", 1.02, 0.99, 1.04), "faster"),
        (decision("slower", 0.8, 0.7, 0.9), decision("faster", 1.2, 1.1, 1.3), "faster"),
        (decision("no difference", 1.03, 0.97, 1.08), decision("undecided", 1.1, 0.9, 1.3), "no difference"),
        (decision("no difference", 1.03, 0.97, 1.08), decision("faster", 1.05, 1.03, 1.07), "faster"),
        (decision("no difference", 1.03, 0.97, 1.08), decision("faster", 1.03, 1.005, 1.05), "no difference"),
        (decision("faster", 1.5, 1.4, 1.6), decision("undecided", 1.5, 0.9, 2.0)._replace(processes=5), "undecided"),
    ],
)
def test_a_verdict_changes_only_by_evidence_outside_both_intervals(
    before: Decision | None, now: Decision, holds: TimingVerdict
):
    kept = keep_or_change(before, now)
    assert kept.verdict == holds
    assert kept in (before, now)


def test_segments_of_time_that_disagree_widen_the_interval():
    rng = random.Random(3)
    steady = [1.5 * math.exp(rng.gauss(0, 0.02)) for _ in range(120)]
    compiled = [1.0] * len(steady)
    level = [1.0, 1.15, 0.9, 1.1]
    changing = [ratio * level[index // 30] for index, ratio in enumerate(steady)]
    narrow, wide = estimate_speedup(steady, compiled).interval, estimate_speedup(changing, compiled).interval
    assert narrow.high / narrow.low < 1.03
    assert wide.high / wide.low > 1.15
    drift = [1 + index / 60 for index in range(len(steady))]
    together = estimate_speedup([a * b for a, b in zip(steady, drift, strict=True)], drift).interval
    assert together == pytest.approx(narrow, rel=1e-6)


def test_the_floor_is_symmetric():
    ratio = Speedup(1 / 1.05, Interval(0.951, 0.954))
    assert decide_verdict(ratio, 0.06, enough=True) == "no difference"
    assert decide_verdict(ratio, 0.04, enough=True) == "slower"


def test_speedup_is_computed_per_pair():
    eager, compiled = [2.0, 20.0, 200.0], [1.0, 10.0, 100.0]
    speedup = estimate_speedup(eager, compiled)
    assert (speedup.value, *speedup.interval) == pytest.approx((2, 2, 2))


def test_the_noise_floor_matches_the_chance_deviation_of_the_median():
    rng = random.Random(4)
    first = [math.exp(rng.gauss(0, 0.05)) for _ in range(400)]
    second = [1.0] * len(first)
    medians = [median([rng.gauss(0, 0.05) for _ in range(25)]) for _ in range(2_000)]
    assert noise_floor(first, second, 25) == pytest.approx(math.expm1(3 * stdlib.stdev(medians)), rel=0.15)
    assert noise_floor(first, second, 100) == pytest.approx(noise_floor(first, second, 25) / 2, rel=0.05)
    assert noise_floor([], [], 25) == 0


def test_one_disturbed_time_among_quiet_ones_widens_the_interval_no_further_than_itself():
    rng = random.Random(0)
    quiet = [2.84 * math.exp(rng.gauss(0, 0.01)) for _ in range(15)]
    disturbed = [2.84 * 2 * math.exp(rng.gauss(0, 0.3)) for _ in range(5)]
    low, high = estimate_speedup([*quiet, *disturbed], [1.0] * 20).interval
    assert median(disturbed) <= high <= max(disturbed) * 1.001
    assert min(quiet) * 0.999 <= low <= median(quiet)
