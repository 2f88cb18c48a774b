"""Guard filters in the guards pane: proposed if guards are expensive, tried by a key, shown with gain and risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tcexplore import events as ev
from tcexplore.documents.guards.guards_view import guards_document
from tcexplore.events.result_events import AccuracyVerdict
from tcexplore.session import Snapshot
from tcexplore.session.call_account import call_account
from tcexplore.session.economics import GUARD_FILTERS
from tcexplore.ui.screens.modes_screen import ModesScreen
from tests import fakes
from tests.studies.playback import JOB, text, timed
from tests.ui.app_under_test import run_app

SPEEDUPS = {"": 1.5, GUARD_FILTERS[0]: 1.51, GUARD_FILTERS[1]: 1.8, GUARD_FILTERS[2]: 2.0}


def expensive(share: float = 0.3) -> Snapshot:
    """Return a run whose guards take a share of a call."""
    us = 100 * share
    guards = ev.CallPart(kind="guards", name="", us=us, low_us=us, high_us=us)
    profile = ev.CallProfiled(total_us=100.0, repeats=5, parts=(guards,))
    return replace(fakes.complete(7), call_account=call_account(profile, None))


def story(job: ev.Job) -> Sequence[ev.Event]:
    name = job.config.guard_filter
    verdict: AccuracyVerdict = "wrong" if name == GUARD_FILTERS[2] else "as accurate as eager"
    return [
        ev.GuardsInstalled(graph="0/0", guards=(), latency_us=20.0), timed(SPEEDUPS[name]),
        ev.Accuracy(verdict=verdict, calls=1, total_calls=1), ev.Finished(),
    ]  # fmt: skip


def test_filters_are_proposed_if_guards_are_expensive_in_warm_calls():
    assert "Checking guards takes 30.0 µs, 30% of a compiled call." in text(guards_document(expensive()))
    assert "Checking guards" not in text(guards_document(expensive(0.02)))
    unknown = replace(expensive(), call_account=None)
    assert "cold check" not in text(guards_document(unknown)), "torch's cold check proposes nothing"


async def test_a_key_tries_the_filters_and_the_pane_shows_gain_and_risk():
    async with run_app(fakes.session(expensive())) as ui:
        ui.engine.story, ui.engine.job = story, replace(JOB, run=7)
        await ui.press("4", "home")
        assert "Checking guards takes 30.0 µs" in ui.row("guards")
        await ui.press("h")
        screen = await ui.study_ended(ModesScreen)
        assert screen.state is not None
        assert [result.run.config.guard_filter for result in screen.state.results] == ["", *GUARD_FILTERS]
        await ui.press("escape", "z")
        shown = " ".join(ui.screen.split())
        assert f"{GUARD_FILTERS[0]}: no certain gain" in shown
        assert f"{GUARD_FILTERS[1]}: 1.20× the speed" in shown
        assert "Unsafe: a change of any attribute of a module after the compile goes unnoticed." in shown
        assert f"{GUARD_FILTERS[2]}: the result is wrong." in shown
        assert f"torch.compile(model, options={{'guard_filter_fn': torch.compiler.{GUARD_FILTERS[1]}}})" in shown
        count = len(ui.engine.queues)
        await ui.press("z", "home", "h")
        assert isinstance(ui.app.screen, ModesScreen)
        assert len(ui.engine.queues) == count, "the results are kept"


async def test_a_run_that_is_not_over_tries_nothing():
    run = replace(expensive(), status="running", phase="dynamo")
    async with run_app(fakes.session(run)) as ui:
        await ui.press("4", "home", "h")
        assert "not over yet" in " ".join(ui.notifications) + ui.screen
