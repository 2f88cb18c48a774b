"""Error rates of verdicts and intervals on simulated machines with the noise of real ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.timing.simulation import BusyNeighbor, Noise, WanderingSpeed, drifting, heavy_tails, quiet, simulate

RUNS = 200

NOISES: dict[str, Callable[[], Noise]] = {
    "heavy tails": lambda: heavy_tails,
    "drift": lambda: drifting,
    "wandering": WanderingSpeed,
    "busy neighbor": BusyNeighbor,
}


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_the_same_function_is_reported_as_different_in_at_most_5_percent_of_runs(noise: Callable[[], Noise]):
    verdicts = [simulate(1.0, noise(), seed=seed).last.verdict for seed in range(RUNS)]
    assert sum(verdict in ("faster", "slower") for verdict in verdicts) <= 0.05 * RUNS
    assert "measuring" not in verdicts


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_intermediate_estimates_report_a_difference_in_at_most_5_percent_of_runs(noise: Callable[[], Noise]):
    """The user sees every estimate, including the first ones with few pairs."""
    runs = [simulate(1.0, noise(), seed=seed, seconds=1.0).estimates for seed in range(RUNS)]
    assert sum(any(e.verdict in ("faster", "slower") for e in estimates) for estimates in runs) <= 0.05 * RUNS


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("ratio", [1.05, 1.2, 2.0, 10.0])
def test_the_interval_contains_the_true_ratio_in_93_percent_of_runs(noise: Callable[[], Noise], ratio: float):
    last = [simulate(ratio, noise(), seed=seed).last for seed in range(RUNS)]
    assert sum(e.low <= ratio <= e.high for e in last) >= 0.93 * RUNS


@pytest.mark.parametrize("noise", [heavy_tails, drifting], ids=["heavy tails", "drift"])
@pytest.mark.parametrize("ratio", [1.2, 2.0, 10.0])
def test_a_difference_of_20_percent_is_detected_in_95_percent_of_runs(noise: Noise, ratio: float):
    verdicts = [simulate(ratio, noise, seed=seed).last.verdict for seed in range(RUNS)]
    assert verdicts.count("faster") >= 0.95 * RUNS


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_a_difference_of_5_percent_is_mostly_detected_within_a_second(noise: Callable[[], Noise]):
    verdicts = [simulate(1.05, noise(), seed=seed, seconds=1.0).last.verdict for seed in range(RUNS)]
    assert verdicts.count("faster") >= 0.8 * RUNS


def test_a_loaded_machine_gives_no_verdict_in_200_measurements():
    """The load is that of other processes, which slow the two sides down by different amounts."""
    runs = [simulate(1.0 + seed % 4, BusyNeighbor(), seed=seed, busy_cores=1.0).estimates for seed in range(RUNS)]
    assert {estimate.verdict for estimates in runs for estimate in estimates} <= {"undecided", "measuring"}
    assert all("Other processes use 1.0 of 2 cores" in " ".join(estimates[-1].notes) for estimates in runs)


def test_slower_is_detected():
    assert simulate(0.8, heavy_tails).last.verdict == "slower"


def test_without_noise_the_ratio_is_exact():
    last = simulate(1.05, quiet).last
    assert (last.low, last.speedup, last.high) == pytest.approx((1.05, 1.05, 1.05), rel=1e-6)
    assert last.verdict == "faster"
