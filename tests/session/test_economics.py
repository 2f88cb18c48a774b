"""What a compile costs and saves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore.session.economics import payback
from tests.timing.test_timing_notes import ESTIMATE

FASTER = replace(ESTIMATE, eager_us=400.0, compiled_us=200.0, speedup=2.0, low=1.6, high=2.5, verdict="faster")
SLOWER = replace(ESTIMATE, eager_us=400.0, compiled_us=500.0, speedup=0.8, low=0.78, high=0.82, verdict="slower")
EQUAL = replace(ESTIMATE, eager_us=400.0, compiled_us=399.0, speedup=1.0025, low=0.99, high=1.02)


def test_break_even_is_the_compile_over_the_saving_with_its_interval():
    found = payback(FASTER, 10.0)
    assert found.saved_us == pytest.approx((200, 150, 240))
    assert found.break_even == 50_000
    assert found.break_even_soonest == 41_667
    assert found.break_even_latest == 66_667


def test_an_interval_that_holds_1_has_no_latest_break_even():
    found = payback(EQUAL, 1.0)
    assert found.break_even == pytest.approx(1_002_500, abs=1)
    assert found.break_even_latest is None


def test_slower_never_breaks_even():
    found = payback(SLOWER, 1.0)
    assert found.saved_us.value == pytest.approx(-100)
    assert (found.break_even_soonest, found.break_even, found.break_even_latest) == (None, None, None)


def test_a_compile_that_costs_nothing_pays_at_once():
    assert payback(FASTER, 0.0).break_even == 0


def test_the_net_after_n_calls_counts_the_compile():
    net = payback(FASTER, 10.0).net_seconds(100_000)
    assert net == pytest.approx((10, 5, 14))
