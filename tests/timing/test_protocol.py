"""The protocol held to its figures, on simulated machines with the noise of real ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.timing.simulation import BusyNeighbour, Noise, Wandering, drifting, heavy_tails, quiet, simulate

RUNS = 200

NOISES: dict[str, Callable[[], Noise]] = {
    "heavy tails": lambda: heavy_tails,
    "drift": lambda: drifting,
    "wandering": Wandering,
    "busy neighbor": BusyNeighbour,
}


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_the_same_function_twice_is_called_different_in_5_of_100_runs_at_most(noise: Callable[[], Noise]):
    called = [simulate(1.0, noise(), seed=seed).last.verdict for seed in range(RUNS)]
    assert sum(verdict in ("faster", "slower") for verdict in called) <= 0.05 * RUNS
    assert "measuring" not in called


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_nor_is_it_called_different_at_any_look_on_the_way(noise: Callable[[], Noise]):
    """The user sees each estimate, the first ones of a few pairs."""
    seen = [simulate(1.0, noise(), seed=seed, seconds=1.0).estimates for seed in range(RUNS)]
    assert sum(any(e.verdict in ("faster", "slower") for e in estimates) for estimates in seen) <= 0.05 * RUNS


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("ratio", [1.05, 1.2, 2.0, 10.0])
def test_the_interval_holds_the_true_ratio_in_93_of_100_runs(noise: Callable[[], Noise], ratio: float):
    last = [simulate(ratio, noise(), seed=seed).last for seed in range(RUNS)]
    assert sum(e.low <= ratio <= e.high for e in last) >= 0.93 * RUNS


@pytest.mark.parametrize("noise", [heavy_tails, drifting], ids=["heavy tails", "drift"])
@pytest.mark.parametrize("ratio", [1.2, 2.0, 10.0])
def test_a_difference_of_a_fifth_or_more_is_found_in_95_of_100_runs(noise: Noise, ratio: float):
    found = [simulate(ratio, noise, seed=seed).last.verdict for seed in range(RUNS)]
    assert found.count("faster") >= 0.95 * RUNS


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_a_difference_of_a_twentieth_is_mostly_found_within_a_second(noise: Callable[[], Noise]):
    found = [simulate(1.05, noise(), seed=seed, seconds=1.0).last.verdict for seed in range(RUNS)]
    assert found.count("faster") >= 0.8 * RUNS


def test_slower_is_found_as_well():
    assert simulate(0.8, heavy_tails).last.verdict == "slower"


def test_without_noise_the_ratio_is_exact():
    last = simulate(1.05, quiet).last
    assert (last.low, last.speedup, last.high) == pytest.approx((1.05, 1.05, 1.05), rel=1e-6)
    assert last.verdict == "faster"
