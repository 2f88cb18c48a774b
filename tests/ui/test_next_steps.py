"""The next view in the app: a key shows it, enter tries a step, follow goes to what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.next_steps import next_steps
from tcexplore.ui.screens.fix_screen import FixScreen
from tcexplore.ui.screens.study_screen import StudyScreen
from tests import fakes
from tests.studies.playback import JOB
from tests.ui.app_under_test import AppUnderTest, run_app

TIMED = ev.ChangeTimed(before_us=100.0, after_us=50.0, speedup=2.0, low=1.9, high=2.1, verdict="faster", pairs=40)


def with_guards() -> Snapshot:
    """Return a run without breaks whose guards take a fifth of a call."""
    run = fakes.one_graph(7)
    guards = ev.CallPart(kind="guards", name="", us=20.0, low_us=18.0, high_us=22.0)
    timing = fakes.complete(7).timing
    return replace(run, timing=timing).apply(ev.CallProfiled(run=7, total_us=100.0, repeats=5, parts=(guards,)))


def story(job: ev.Job) -> Sequence[ev.Event]:
    """Return the run of a trial: twice as fast with a guard filter."""
    return [TIMED, ev.Finished()] if job.baseline_config is not None and job.config.guard_filter else [ev.Finished()]


async def go_to_first_step(ui: AppUnderTest) -> None:
    await ui.press("a")
    assert ui.current == "timing"
    assert ui.pane("timing").view.name == "next"
    await ui.press("home")
    for _ in range(40):
        if ui.row("timing").lstrip().startswith("1 "):
            return
        await ui.press("down")
    raise AssertionError("no step is listed")


async def test_enter_tries_a_step_and_the_list_has_the_gain():
    async with run_app(fakes.session(with_guards())) as ui:
        ui.engine.story, ui.engine.job = story, replace(JOB, run=7)
        await go_to_first_step(ui)
        assert "at most" in ui.row("timing") + " ".join(ui.screen.split())
        await ui.press("enter")
        await ui.study_ended(StudyScreen)
        (tried,) = ui.app.session.runs[-1].steps_tried
        assert (tried.low, tried.speedup, tried.high) == (1.9, 2.0, 2.1)
        assert next_steps(ui.app.session.runs[-1])[0].gain.helps
        await ui.press("escape")
        assert "2.00× faster [1.90, 2.10]" in " ".join(ui.screen.split())


async def test_follow_goes_to_what_a_step_rests_on():
    async with run_app(fakes.session(with_guards())) as ui:
        await go_to_first_step(ui)
        await ui.press("f")
        assert (ui.current, ui.pane("guards").view.name) == ("guards", "guards")
        await ui.press("backspace")
        assert (ui.current, ui.pane("timing").view.name) == ("timing", "next")


async def test_enter_on_a_break_opens_its_fix():
    run = fakes.complete(7)
    fix = ev.BreakFix(run=7, location=run.breaks[0].location, kind=run.breaks[0].kind, state="proposed", name="a fix")
    async with run_app(fakes.session(replace(run, call_account=None, fixes=(fix,)))) as ui:
        ui.engine.job = replace(JOB, run=7)
        await go_to_first_step(ui)
        await ui.press("enter")
        assert isinstance(ui.app.screen, FixScreen)


async def test_a_step_that_is_an_edit_says_so():
    async with run_app(fakes.session(replace(fakes.complete(7), call_account=None))) as ui:
        await go_to_first_step(ui)
        await ui.press("enter")
        assert "an edit of your file" in " ".join(ui.notifications)


async def test_the_end_key_goes_to_the_last_step_and_not_to_the_hint_below_it():
    async with run_app(fakes.session(with_guards())) as ui:
        ui.engine.story, ui.engine.job = story, replace(JOB, run=7)
        await ui.press("a", "G")
        assert "tries a step" in ui.screen, "the hint is in view"
        await ui.press("enter")
        assert isinstance(ui.app.screen, StudyScreen)


async def test_enter_on_the_breaks_together_tries_all_their_fixes():
    run = fakes.complete(7)
    (first,) = run.breaks
    second = replace(first, location=ev.Location(run.file, 3, "forward"), code="y.item()")
    fixes = tuple(
        ev.BreakFix(run=7, location=known.location, kind=known.kind, state="proposed", name="a fix")
        for known in (first, second)
    )
    async with run_app(fakes.session(replace(run, call_account=None, breaks=(first, second), fixes=fixes))) as ui:
        ui.engine.story, ui.engine.job = lambda _: [ev.Finished()], replace(JOB, run=7)
        await go_to_first_step(ui)
        assert "Remove 2 graph breaks together" in ui.row("timing")
        await ui.press("enter")
        await ui.study_ended(StudyScreen)
        assert ui.app.session.runs[-1].steps_tried[0].problem == "no fix could be verified"


async def test_the_key_for_advice_goes_to_the_first_step():
    async with run_app(fakes.session(with_guards())) as ui:
        await ui.press("a")
        assert ui.row("timing").lstrip().startswith("1 ")
