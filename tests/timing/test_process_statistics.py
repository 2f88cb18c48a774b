"""The interval of a speedup over several processes."""

from __future__ import annotations

import math
import random

import pytest

from tcexplore.timing.process_statistics import combine
from tests.snapshots.mlp_timing import process


def test_the_interval_of_one_process_is_its_own():
    only = combine([process(1.5, 1.4, 1.6)], 12)
    assert (only.value, only.effective_pairs) == (1.5, 12)
    assert list(only.interval) == pytest.approx([1.4, 1.6])


def test_the_interval_of_one_process_is_widened_by_what_processes_are_expected_to_differ():
    _, (low, high), _ = combine([process(1.5, 1.499, 1.501)], 12, 0.005)
    assert low == pytest.approx(1.5 * math.exp(-2.17 * 0.005), rel=1e-3)
    assert high == pytest.approx(1.5 * math.exp(2.17 * 0.005), rel=1e-3)


def test_processes_on_a_gpu_are_expected_to_differ_as_they_do_there():
    rows = [process(value, value * 0.999, value * 1.001) for value in (1.49, 1.5, 1.5, 1.51)]
    narrow, wide = (combine(rows, 0, spread).interval for spread in (0.005, None))
    assert math.log(narrow.high / narrow.low) < math.log(wide.high / wide.low) / 2


def test_processes_that_disagree_widen_the_interval_and_those_that_agree_narrow_it():
    alike = combine([process(1.5, 1.4, 1.6), process(1.52, 1.42, 1.62), process(1.48, 1.38, 1.58)] * 2, 0)
    apart = combine([process(1.5, 1.49, 1.51), process(4.1, 4.0, 4.2), process(1.9, 1.89, 1.91)], 0)
    assert alike.interval.high - alike.interval.low < 0.15
    assert apart.interval.low < 1.6
    assert apart.interval.high > 3.5


def test_processes_that_agree_are_not_less_certain_than_one():
    rows = [process(1.09, 1.09 * math.exp(-0.05), 1.09 * math.exp(0.05)) for _ in range(3)]
    low, high = combine(rows, 0, 0.005).interval
    assert math.log(high / low) / 2 < 0.05


def test_one_process_that_differs_does_not_move_the_speedup():
    mixed = combine([process(1.5, 1.48, 1.52), process(1.51, 1.48, 1.52), process(3.0, 2.9, 3.1)], 0)
    assert mixed.value == pytest.approx(1.51)


@pytest.mark.parametrize("spread", [0.01, 0.03, 0.1])
@pytest.mark.parametrize("count", [3, 5])
def test_the_interval_contains_the_true_ratio_in_93_percent_of_runs(spread: float, count: int):
    rng, covered, runs = random.Random(1), 0, 400
    for _ in range(runs):
        rows = []
        for _ in range(count):
            value = 1.8 * math.exp(rng.gauss(0, spread) + rng.gauss(0, 0.01))
            rows.append(process(value, value * math.exp(-0.0217), value * math.exp(0.0217)))
        low, high = combine(rows, 0).interval
        covered += low <= 1.8 <= high
    assert covered >= 0.93 * runs
