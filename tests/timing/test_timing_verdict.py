from __future__ import annotations

import math
import random
import statistics as stdlib

import pytest

from tcexplore.timing.samples import Interval, median
from tcexplore.timing.timing_verdict import Speedup, decide_verdict, estimate_speedup, is_loaded, noise_floor


@pytest.mark.parametrize(
    ("value", "low", "high", "floor", "expected"),
    [
        (1.5, 1.4, 1.6, 0.02, "faster"),
        (0.7, 0.6, 0.8, 0.02, "slower"),
        (1.5, 0.9, 2.0, 0.02, "undecided"),
        (1.3, 1.2, 1.4, 0.5, "undecided"),
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


def test_no_difference_counts_above_a_noise_floor_of_20_percent():
    speedup = Speedup(9.0, Interval(8.0, 10.0))
    assert decide_verdict(speedup, 0.19, enough=True) == "faster"
    assert decide_verdict(speedup, 0.21, enough=True) == "undecided"


@pytest.mark.parametrize(
    ("busy", "cores", "loaded"),
    [(1.0, 2, True), (0.9, 2, False), (32.0, 64, True), (31.0, 64, False), (None, 2, False)],
)
def test_no_difference_counts_while_other_processes_hold_half_of_the_cores(
    busy: float | None, cores: int, loaded: bool
):
    assert is_loaded(busy, cores) is loaded
    speedup = Speedup(9.0, Interval(8.0, 10.0))
    assert decide_verdict(speedup, 0.0, enough=True, loaded=loaded) == ("undecided" if loaded else "faster")
    assert decide_verdict(speedup, 0.0, enough=False, loaded=loaded) == "measuring"


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
