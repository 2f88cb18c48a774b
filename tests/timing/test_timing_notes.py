from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tcexplore.timing.estimate import timing_notes
from tcexplore.timing.samples import Conditions
from tests.snapshots.estimates import ESTIMATE
from tests.snapshots.mlp_timing import PROCESSES, RETURNED

CONDITIONS = Conditions(
    threads=2, device="cpu", train=False, calls=1, block=8, block_compiled=10, cores=4, busy_cores=0.1
)


def test_a_clean_measurement_has_no_notes():
    assert timing_notes(ESTIMATE, CONDITIONS) == ()
    assert timing_notes(replace(ESTIMATE, memory_returned=replace(RETURNED, differs=False)), CONDITIONS) == ()


@pytest.mark.parametrize(
    ("estimate", "conditions", "text"),
    [
        ({"pairs": 7, "pairs_taken": 7}, {}, "7 pairs only"),
        ({"noise_floor": 0.25, "speedup": 1.42}, {}, "varies by up to 25%; smaller differences can't be detected: the"),
        ({"noise_floor": 0.25, "speedup": 0.7}, {}, "can't be detected: the difference is above that"),
        ({}, {"busy_cores": 3.2}, "Other programs use 3.2 of 4 cores: both sides take longer"),
        ({}, {"busy_cores": 3.2}, "and wait. --threads 1 is steadier"),
        ({"eager_halves_us": (412.0, 431.0)}, {}, "eager 412 µs → 431 µs"),
        ({"eager_outliers": 6}, {}, "15% of eager blocks"),
        ({"pairs_discarded": 2}, {}, "2 pairs discarded"),
        ({}, {"warm_up_spread": 0.12}, "last rounds differed by 12%"),
        ({}, {"resets": True}, "Mutated inputs are restored"),
        ({"train": True}, {"resets": True}, "Gradients are cleared"),
        ({}, {"governor": "powersave"}, "governor powersave"),
        ({"pairs": 2_000, "pairs_taken": 14_300}, {}, "newest 2,000 of 14,300"),
        ({"device": "cuda: NVIDIA H200"}, {}, "L2 cache is warm"),
        ({"device": "cuda: NVIDIA H200"}, {"busy_cores": 3.2}, "L2 cache is warm"),
        (
            {"memory_returned": RETURNED},
            {},
            "Returned to the system, as glibc does by default, an eager call takes 2.07 ms (941 page faults) and a "
            "compiled one 1.42 ms (12): 1.46× [1.31, 1.60]",
        ),
        ({"processes": PROCESSES[:1], "processes_to_come": 4}, {}, "Of one process so far"),
        ({"unit": "step"}, {}, "another run of the script may differ by more than the interval"),
    ],
)
def test_each_problem_has_one_note(estimate: dict[str, Any], conditions: dict[str, Any], text: str):
    notes = timing_notes(replace(ESTIMATE, **estimate), replace(CONDITIONS, **conditions))
    assert len(notes) == 1
    assert text in notes[0]


@pytest.mark.parametrize(
    ("estimate", "conditions"),
    [
        ({"pairs": 3, "pairs_taken": 3, "verdict": "measuring"}, {}),
        ({"noise_floor": 0.25, "control_pairs": 0}, {}),
        ({}, {"busy_cores": None}),
        ({}, {"busy_cores": 1.9}),
        ({"threads": 1}, {"busy_cores": 2.0}),
        ({"processes": PROCESSES}, {}),
        ({"eager_outliers": 4}, {}),
        ({}, {"governor": "performance"}),
    ],
)
def test_there_is_no_note_without_a_problem(estimate: dict[str, Any], conditions: dict[str, Any]):
    assert timing_notes(replace(ESTIMATE, **estimate), replace(CONDITIONS, **conditions)) == ()


def test_a_difference_within_the_noise_is_not_called_above_it():
    faster = replace(ESTIMATE, noise_floor=0.25, speedup=1.12, verdict="faster")
    (note,) = timing_notes(faster, CONDITIONS)
    assert note.endswith("can't be detected. The verdict was given when it varied less"), "a verdict is kept"
    (note,) = timing_notes(replace(faster, verdict="undecided"), CONDITIONS)
    assert note.endswith("smaller differences can't be detected")
