"""Cost and savings of a compile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.session import summarize
from tcexplore.session.economics import economics, payback
from tests import fakes
from tests.snapshots.estimates import EQUAL, FASTER, SLOWER


def test_break_even_is_compile_time_over_savings_with_an_interval():
    gain = payback(FASTER, 10.0)
    assert gain.saved_us == pytest.approx((200, 150, 240))
    assert gain.break_even == 50_000
    assert gain.break_even_soonest == 41_667
    assert gain.break_even_latest == 66_667


def test_an_interval_around_1_has_no_latest_break_even():
    gain = payback(EQUAL, 1.0)
    assert gain.break_even == pytest.approx(1_002_500, abs=1)
    assert gain.break_even_latest is None


def test_slower_code_never_breaks_even():
    gain = payback(SLOWER, 1.0)
    assert gain.saved_us.value == pytest.approx(-100)
    assert (gain.break_even_soonest, gain.break_even, gain.break_even_latest) == (None, None, None)


def test_a_free_compile_pays_off_at_once():
    assert payback(FASTER, 0.0).break_even == 0


def test_net_gain_includes_the_compile_time():
    net = payback(FASTER, 10.0).net_seconds(100_000)
    assert net == pytest.approx((10, 5, 14))


def test_too_few_pairs_predict_nothing_and_an_undecided_timing_has_its_interval():
    run = fakes.complete()
    assert economics(run).payback is not None
    costs = economics(replace(run, timing=replace(FASTER, verdict="measuring")))
    assert (costs.payback, costs.break_even_calls) == (None, None)
    undecided = economics(replace(run, timing=replace(FASTER, verdict="undecided")))
    assert undecided.payback is not None
    assert undecided.break_even_calls is None, "only a faster compiled call pays off for certain"
    assert costs.cost_s is not None, "measured costs stay visible"


def test_the_recompiles_of_a_script_are_those_of_the_header():
    run = fakes.recompiled()
    entry = ev.EntryFound(name="__main__", kind="script", rule="", calls=())
    again = replace(run.recompiles[0], limit_hit=True)
    script = replace(run, entry=entry, recompiles=(*run.recompiles, *run.recompiles, again))
    assert economics(script).compiling_calls == 1 + summarize(script).recompiles < 1 + len(script.recompiles)
