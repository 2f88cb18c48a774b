from __future__ import annotations

import math
import random
import statistics as stdlib

import pytest

from tcexplore.timing.samples import (
    CONFIDENCE,
    RESAMPLES,
    Interval,
    Outliers,
    _resampled_middles,
    bootstrap_median,
    count_outliers,
    effective_sample_size,
    half_medians,
    mad,
    median,
    median_interval,
    percentile,
)


@pytest.mark.parametrize("values", [[3.0], [1.0, 4.0], [5.0, 1.0, 3.0], [2.0, 9.0, 4.0, 1.0]])
def test_median_matches_the_standard_library(values: list[float]):
    assert median(values) == stdlib.median(values)


def test_percentile_interpolates():
    values = [10.0, 20.0, 30.0, 40.0, 50.0]
    assert percentile(values, 0.1) == pytest.approx(14)
    assert percentile(values, 0.9) == pytest.approx(46)
    assert (percentile(values, 0), percentile(values, 1)) == (10, 50)


def test_statistics_of_no_samples_raise():
    for figure in (median, mad, bootstrap_median, median_interval):
        with pytest.raises(ValueError, match="no samples"):
            figure([])


def test_mad_ignores_the_distance_of_an_outlier():
    assert mad([1.0, 2.0, 3.0, 4.0, 1e9]) == 1


def test_halves_follow_the_order_of_measurement():
    assert half_medians([1.0, 1.0, 2.0, 2.0]) == (1, 2)


def test_outliers_are_mild_or_severe():
    body = [10.0, 11.0, 12.0, 13.0, 14.0] * 4
    assert count_outliers(body) == Outliers(0, 0)
    assert count_outliers([*body, 18.5, -100.0, 50.0]) == Outliers(mild=1, severe=2)


def test_few_samples_have_no_outliers():
    assert count_outliers([1.0, 1.0, 100.0]).total == 0


def test_the_same_samples_give_the_same_interval():
    values = [random.Random(1).gauss(0, 1) for _ in range(40)]
    assert median_interval(values) == median_interval(list(reversed(values)))


@pytest.mark.parametrize("count", [7, 12, 41])
def test_resampled_middles_match_drawing_with_replacement(count: int):
    rng = random.Random(3)
    drawn = []
    for _ in range(RESAMPLES):
        ranks = sorted(rng.randrange(count) for _ in range(count))
        drawn.append((ranks[(count - 1) // 2] + ranks[count // 2]) / 2)
    direct = [(int(low * count) + int(high * count)) / 2 for low, high in _resampled_middles(count)]
    tolerance = 4 * stdlib.stdev(drawn) * math.sqrt(2 / RESAMPLES)
    assert stdlib.mean(direct) == pytest.approx(stdlib.mean(drawn), abs=tolerance)
    assert stdlib.stdev(direct) == pytest.approx(stdlib.stdev(drawn), rel=0.1)


@pytest.mark.parametrize("count", [1, 6, 7, 12, 41, 100])
def test_the_bootstrap_interval_is_that_of_all_resamples(count: int):
    rng = random.Random(4)
    values = sorted(round(rng.gauss(0, 1), 1) for _ in range(count))
    middles = _resampled_middles(effective_sample_size(values))
    medians = [(values[int(low * count)] + values[int(high * count)]) / 2 for low, high in middles]
    expected = percentile(medians, (1 - CONFIDENCE) / 2), percentile(medians, (1 + CONFIDENCE) / 2)
    assert bootstrap_median(values) == pytest.approx(expected)


@pytest.mark.parametrize("count", [6, 7, 15, 16, 60])
def test_the_interval_contains_the_true_median_in_95_percent_of_cases(count: int):
    rng = random.Random(count)
    hits = sum(not median_interval([rng.gauss(0, 1) for _ in range(count)]).excludes(0) for _ in range(400))
    assert hits >= 0.94 * 400


def test_many_samples_give_a_narrow_interval():
    rng = random.Random(2)
    low, high = median_interval([rng.gauss(0, 1) for _ in range(2_000)])
    assert -0.12 < low < 0 < high < 0.12


def test_an_interval_includes_its_ends():
    assert not Interval(1.0, 2.0).excludes(1.0)
    assert Interval(1.0, 2.0).excludes(2.1)


def autoregressive(rng: random.Random, count: int, share: float) -> list[float]:
    """Return noise in which each value contains a share of the previous one."""
    values = [rng.gauss(0, 1)]
    for _ in range(count - 1):
        values.append(share * values[-1] + rng.gauss(0, 1))
    return values


def test_independent_samples_count_almost_in_full():
    rng = random.Random(5)
    sizes = [effective_sample_size([rng.gauss(0, 1) for _ in range(100)]) for _ in range(100)]
    assert 85 <= stdlib.mean(sizes) <= max(sizes) <= 100


def test_correlated_samples_count_for_fewer():
    rng = random.Random(6)
    sizes = stdlib.mean(effective_sample_size(autoregressive(rng, 200, 0.5)) for _ in range(100))
    assert 60 <= sizes <= 120, "an autocorrelation of the side of 1/3 at lag 1 and half as much at each next: 86"


@pytest.mark.parametrize(("share", "count"), [(0.5, 15), (0.5, 60), (0.5, 150), (0.8, 60), (0.8, 150), (0.9, 150)])
def test_the_interval_accounts_for_correlated_samples(share: float, count: int):
    rng = random.Random(7)
    series = (autoregressive(rng, 40 + count, share)[40:] for _ in range(400))
    hits = sum(not median_interval(values).excludes(0) for values in series)
    assert hits >= 0.93 * 400


def test_equal_samples_count_in_full():
    assert effective_sample_size([1.0] * 30) == 30
