from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore.events import TimingEstimate
from tcexplore.timing.conditions import Conditions
from tcexplore.timing.timing_notes import notes

ESTIMATE = TimingEstimate(
    eager_us=412.0,
    eager_spread_us=3.0,
    compiled_us=314.0,
    compiled_spread_us=2.0,
    speedup=1.31,
    low=1.28,
    high=1.34,
    noise_floor=0.01,
    pairs=40,
    verdict="faster",
    threads=2,
    device="cpu",
    control_pairs=8,
    pairs_taken=40,
    eager_halves_us=(412.0, 413.0),
    compiled_halves_us=(314.0, 313.0),
)
CONDITIONS = Conditions(
    threads=2, device="cpu", train=False, calls=1, block=8, block_compiled=10, cores=4, busy_cores=0.1
)


def test_a_clean_measurement_has_nothing_to_say():
    assert notes(ESTIMATE, CONDITIONS) == ()


@pytest.mark.parametrize(
    ("estimate", "conditions", "said"),
    [
        ({"pairs": 7, "pairs_taken": 7}, {}, "7 pairs only"),
        ({"noise_floor": 0.25}, {}, "up to 25%"),
        ({}, {"busy_cores": 3.2}, "other processes kept 3.2 of 4 cores busy, while this one runs 2 threads"),
        ({}, {"busy_cores": 3.2}, "than on a quiet machine; --threads 1 waits for fewer of them"),
        ({"eager_halves_us": (412.0, 431.0)}, {}, "eager 412 µs → 431 µs"),
        ({"eager_outliers": 6}, {}, "15% of eager blocks"),
        ({"pairs_discarded": 2}, {}, "2 pairs discarded"),
        ({}, {"unsettled": 0.12}, "12% apart"),
        ({}, {"restored": True}, "mutated inputs are restored"),
        ({"train": True}, {"restored": True}, "gradients are cleared"),
        ({}, {"governor": "powersave"}, "governor powersave"),
        ({"pairs": 2_000, "pairs_taken": 14_300}, {}, "newest 2,000 of 14,300"),
        ({"device": "cuda: NVIDIA H200"}, {}, "L2 cache is warm"),
        ({"device_compiled_us": 100.0}, {}, "launch-bound"),
    ],
)
def test_each_trouble_is_named_alone(estimate: dict[str, object], conditions: dict[str, object], said: str):
    found = notes(replace(ESTIMATE, **estimate), replace(CONDITIONS, **conditions))
    assert len(found) == 1
    assert said in found[0]


@pytest.mark.parametrize(
    ("estimate", "conditions"),
    [
        ({"pairs": 3, "pairs_taken": 3, "verdict": "measuring"}, {}),
        ({"noise_floor": 0.25, "control_pairs": 0}, {}),
        ({}, {"busy_cores": None}),
        ({}, {"busy_cores": 2.3}),
        ({"eager_outliers": 4}, {}),
        ({"device_compiled_us": 300.0}, {}),
        ({}, {"governor": "performance"}),
    ],
)
def test_nothing_is_said_without_cause(estimate: dict[str, object], conditions: dict[str, object]):
    assert notes(replace(ESTIMATE, **estimate), replace(CONDITIONS, **conditions)) == ()
