"""Error rates of verdicts on simulated machines with other busy processes."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tcexplore.events import TimingEstimate
from tests.timing.simulation import TimeSlicing, simulate

LOADS: dict[str, dict[str, Any]] = {
    "idle": {"busy": 0},
    "1 busy process": {"busy": 1},
    "2 busy processes": {"busy": 2},
    "4 busy processes": {"busy": 4},
    "4 that come and go": {"busy": 4, "bursts": True},
    "2 and a drift": {"busy": 2, "drift": 2.5},
}

LOADED_RUNS = 50


@cache
def loaded(ratio: float, load: str, unit_ns: float) -> tuple[tuple[TimingEstimate, ...], ...]:
    options = LOADS[load]
    return tuple(
        tuple(
            simulate(
                ratio,
                TimeSlicing(**options),
                seed=seed,
                seconds=3.0,
                unit_ns=unit_ns,
                busy_cores=float(options["busy"]),
            ).estimates
        )
        for seed in range(LOADED_RUNS)
    )


@pytest.mark.parametrize("unit_ns", [0.3e6, 20e6])
@pytest.mark.parametrize("load", LOADS)
def test_other_load_causes_no_false_verdict(load: str, unit_ns: float):
    runs = loaded(1.0, load, unit_ns)
    assert sum(run[-1].verdict in ("faster", "slower") for run in runs) <= 0.02 * LOADED_RUNS
    assert sum(run[-1].verdict == "slower" for run in loaded(1.5, load, unit_ns)) == 0


@pytest.mark.parametrize("unit_ns", [0.3e6, 20e6])
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("ratio", [1.5, 3.0])
def test_a_difference_of_half_is_detected_beside_other_load(load: str, unit_ns: float, ratio: float):
    last = [run[-1] for run in loaded(ratio, load, unit_ns)]
    assert sum(estimate.verdict == "faster" for estimate in last) >= 0.95 * LOADED_RUNS
