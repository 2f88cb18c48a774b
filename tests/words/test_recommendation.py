"""Compile it or leave it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore.words.recommendation import recommendation
from tests.session.test_payback import EQUAL, FASTER, SLOWER

AFTER = "compiling pays for itself after about 50,000."


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        (None, "Compile it if it is called more than about 50,000 times: that costs 10.0 s and saves 200 µs a call."),
        (1_000_000, f"Compile it: over 1,000,000 calls that wins 190 s; {AFTER}"),
        (1_000, f"Leave it eager for 1,000 calls: that would lose 9.80 s; {AFTER}"),
        (50_000, f"For 50,000 calls it makes no difference that can be told; {AFTER}"),
    ],
)
def test_faster_is_recommended_from_break_even_on(calls: int | None, said: str):
    assert recommendation(FASTER, 10.0, calls) == said


def test_no_gain_is_no_recommendation():
    assert recommendation(SLOWER, 10.0) == "Leave it eager: a compiled call takes 100 µs longer."
    equal = recommendation(replace(EQUAL, verdict="no difference"), 10.0)
    assert equal == "Leave it eager: compiling costs 10.0 s and saves nothing that can be measured here."
    assert recommendation(replace(FASTER, verdict="measuring"), 10.0) == ""


def test_a_call_of_a_file_that_makes_several_is_their_mean():
    assert "200 µs a call (the mean of the file's 3)." in recommendation(replace(FASTER, calls=3), 10.0)
