"""Error rates of verdicts and intervals on simulated machines with the noise of real ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tcexplore.events import TimingEstimate
from tests.timing.simulation import BusyNeighbor, Noise, WanderingSpeed, drifting, heavy_tails, quiet, simulate

RUNS = 200

NOISES: dict[str, Callable[[], Noise]] = {
    "heavy tails": lambda: heavy_tails,
    "drift": lambda: drifting,
    "wandering": WanderingSpeed,
    "busy neighbor": BusyNeighbor,
}


@cache
def estimates(ratio: float, noise: str, seconds: float = 0.4) -> tuple[tuple[TimingEstimate, ...], ...]:
    """Return the estimates of `RUNS` simulated runs, which several tests share."""
    return tuple(tuple(simulate(ratio, NOISES[noise](), seed=seed, seconds=seconds).estimates) for seed in range(RUNS))


def verdicts(ratio: float, noise: str, seconds: float = 0.4) -> list[str]:
    """Return the last verdict of each run."""
    return [run[-1].verdict for run in estimates(ratio, noise, seconds)]


@pytest.mark.parametrize("noise", NOISES)
def test_the_same_function_is_reported_as_different_in_at_most_5_percent_of_runs(noise: str):
    last = verdicts(1.0, noise)
    assert sum(verdict in ("faster", "slower") for verdict in last) <= 0.05 * RUNS
    assert "measuring" not in last


@pytest.mark.parametrize("noise", NOISES)
def test_intermediate_estimates_report_a_difference_in_at_most_5_percent_of_runs(noise: str):
    """The user sees every estimate, including the first ones with few pairs."""
    runs = estimates(1.0, noise, 1.0)
    assert sum(any(e.verdict in ("faster", "slower") for e in run) for run in runs) <= 0.05 * RUNS


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("ratio", [1.05, 1.2, 2.0, 10.0])
def test_the_interval_contains_the_true_ratio_in_93_percent_of_runs(noise: str, ratio: float):
    assert sum(run[-1].low <= ratio <= run[-1].high for run in estimates(ratio, noise)) >= 0.93 * RUNS


@pytest.mark.parametrize("noise", ["heavy tails", "drift"])
@pytest.mark.parametrize("ratio", [1.2, 2.0, 10.0])
def test_a_difference_of_20_percent_is_detected_in_95_percent_of_runs(noise: str, ratio: float):
    assert verdicts(ratio, noise).count("faster") >= 0.95 * RUNS


@pytest.mark.parametrize("noise", NOISES)
def test_a_difference_of_5_percent_is_mostly_detected_within_a_second(noise: str):
    assert verdicts(1.05, noise, 1.0).count("faster") >= 0.8 * RUNS


def test_slower_is_detected():
    assert simulate(0.8, heavy_tails).last.verdict == "slower"


def test_without_noise_the_ratio_is_exact():
    last = simulate(1.05, quiet).last
    assert (last.low, last.speedup, last.high) == pytest.approx((1.05, 1.05, 1.05), rel=1e-6)
    assert last.verdict == "faster"
