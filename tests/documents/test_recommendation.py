"""Compile it or leave it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.documents.timing.recommendation import format_recommendation, format_reservation, recommend
from tcexplore.session import Snapshot
from tests.session.test_payback import EQUAL, FASTER, SLOWER

AFTER = "compiling pays for itself after about 50,000."


@pytest.mark.parametrize(
    ("calls", "sentence"),
    [
        (
            None,
            "Compile it if it is called more than about 50,000 times (41,700 to 66,700): that costs 10.0 s and saves "
            "200 µs a call.",
        ),
        (1_000_000, f"Compile it: over 1,000,000 calls that wins 190 s; {AFTER}"),
        (1_000, f"Leave it eager for 1,000 calls: that would lose 9.80 s; {AFTER}"),
        (50_000, f"For 50,000 calls it makes no difference that can be told; {AFTER}"),
    ],
)
def test_faster_is_recommended_from_break_even_on(calls: int | None, sentence: str):
    assert format_recommendation(FASTER, 10.0, calls) == sentence


def test_no_gain_is_no_recommendation():
    assert (
        format_recommendation(SLOWER, 10.0)
        == "Leave it eager: a compiled call takes 100 µs longer, so its compile never pays for itself."
    )
    equal = format_recommendation(replace(EQUAL, verdict="no difference"), 10.0)
    assert equal == "Leave it eager: compiling costs 10.0 s and saves nothing that can be measured here."
    assert format_recommendation(replace(FASTER, verdict="measuring"), 10.0) == ""


def test_a_call_of_a_file_that_makes_several_is_their_mean():
    assert "200 µs a call (the mean of the file's 3)." in format_recommendation(replace(FASTER, calls=3), 10.0)


def test_an_interval_that_is_narrow_has_one_break_even():
    assert "50,000 times: that" in format_recommendation(replace(FASTER, low=1.98, high=2.02), 10.0)


def test_a_compile_that_took_no_time_is_not_called_zero_times():
    assert format_recommendation(FASTER, 0.0) == (
        "Compile it: it saves 200 µs a call, and the calls that compiled took no longer than the others."
    )


CALLS = (ev.CallMade(index=0, variant="compiled", seconds=4.0002, compiles=1),)
AGAIN = (*CALLS, ev.CallMade(index=1, variant="compiled", seconds=6.0002, compiles=1))
KERNEL = ev.Kernel(graph="0/0", phase="forward", name="cpp_fused_0", language="cpp", source="")
"""A compile of four seconds, one more of six, a kernel of it."""


def run(*events: ev.Event) -> Snapshot:
    snapshot = Snapshot(run=0, file="m.py", source="", config=ev.Config())
    for event in (*events, FASTER):
        snapshot = snapshot.apply(event)
    return snapshot


def test_what_recompiling_cost_is_in_it_and_is_said_to_be():
    assert "that costs 4.00 s and" in recommend(run(*CALLS))
    assert "that costs 10.0 s, compiling again 1 time included, and" in recommend(run(*AGAIN))


def test_a_wrong_result_is_not_recommended_however_fast():
    assert recommend(run(*CALLS, ev.Accuracy(verdict="wrong"))).startswith("Leave it eager until its result is right")


def test_kernels_that_an_earlier_run_left_are_owned_up_to():
    compiled = ev.PhaseTimed(name="compile_file", seconds=2.0, graph="0/0", depth=0)
    assert "found on disk" in format_reservation(run(*CALLS, KERNEL))
    assert format_reservation(run(*CALLS, KERNEL, compiled)) == ""
    assert format_reservation(run(*CALLS)) == ""
