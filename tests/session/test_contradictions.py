"""Costs of breaks that contradict the timing are marked, with the reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.quantities import duration
from tcexplore.session import Snapshot
from tests.snapshots.estimates import LINE, TIMING, costs


def run(*events: ev.Event) -> Snapshot:
    snapshot = Snapshot(run=1, file=LINE.file, source="", config=ev.Config())
    for event in events:
        snapshot = snapshot.apply(event)
    return snapshot


def test_costs_that_agree_have_no_mark():
    assert run(costs(710.0), TIMING).break_costs == costs(710.0)


@pytest.mark.parametrize("us", [650.0, 1350.0])
@pytest.mark.parametrize("first", [False, True], ids=["costs first", "timing first"])
def test_costs_that_disagree_by_more_than_30_percent_stay_and_are_marked(us: float, first: bool):
    snapshot = run(TIMING, costs(us)) if first else run(costs(us), TIMING)
    contradicted = f"a call took {duration(us / 1e6)} when the breaks were measured, but 1.00 ms in the timing"
    assert snapshot.break_costs == replace(costs(us), contradicted=contradicted)
    later = replace(TIMING, compiled_us=us)
    assert snapshot.apply(later).break_costs == costs(us), "the mark goes once the timing agrees"


def test_no_break_costs_more_than_the_call():
    measured = run(costs(1200.0, at_break=1100.0), TIMING).break_costs
    assert measured is not None
    assert measured.contradicted


def test_costs_are_those_of_all_calls_of_a_unit():
    measured = run(costs(1000.0), replace(TIMING, calls=2)).break_costs
    assert measured is not None
    assert "2 calls took 1.00 ms when the breaks were measured, but 2.00 ms" in measured.contradicted


def test_costs_of_training_lack_the_backward_pass():
    assert run(costs(300.0), replace(TIMING, train=True)).break_costs == costs(300.0)


def test_nothing_is_marked_before_a_verdict():
    assert run(costs(9000.0), replace(TIMING, verdict="measuring")).break_costs == costs(9000.0)
