"""The cold compile screen: both runs, their caches, and no files left behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tcexplore import events as ev
from tcexplore.studies.study import StudyState
from tcexplore.ui.screens.fix_screen import FixScreen
from tcexplore.ui.screens.modes_screen import ModesScreen
from tcexplore.ui.screens.study_screen import StudyScreen
from tests import fakes
from tests.studies.playback import JOB
from tests.studies.stories import cold_story, exists
from tests.ui.app_under_test import AppUnderTest, check_screen, run_app


async def opened(ui: AppUnderTest) -> StudyScreen:
    await ui.press("S", "C")
    screen = ui.app.screen
    assert isinstance(screen, StudyScreen)
    return screen


async def half_done(ui: AppUnderTest) -> StudyState[Any, Any]:
    """Return a study that has its cold run, and waits for the warm one."""
    ui.engine.story, ui.engine.job = (lambda job: cold_story(job) if job.run == 1 else ()), replace(JOB, run=7)
    cold = await opened(ui)
    await ui.until(lambda: bool(cold.state and cold.state.results))
    assert cold.state is not None
    return cold.state


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)
async def test_both_runs_and_their_caches(size: tuple[int, int]):
    async with run_app(fakes.session(fakes.complete(7)), size) as ui:
        ui.engine.story = cold_story
        await opened(ui)
        await ui.study_ended(StudyScreen)
        check_screen(f"cold_{size[0]}x{size[1]}", ui)


async def test_the_run_has_the_break_even_of_a_cold_compile():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.story, ui.engine.job = cold_story, replace(JOB, run=7)
        await opened(ui)
        await ui.study_ended(StudyScreen)
        assert ui.app.session.runs[-1].cold_compile == ev.ColdCompile(run=7, seconds=9.0, calls=1, warm_seconds=9.0)
        await ui.press("escape", "a", "z", "g")
        assert "With empty caches, compiling takes 9.00 s: break-even at" in " ".join(ui.screen.split())


async def test_the_folder_is_removed_when_the_study_is_stopped():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.story = lambda job: cold_story(job) if job.run == 1 else ()
        await opened(ui)
        await ui.until(lambda: len(ui.engine.queues[0].jobs) == 2)
        folder = ui.engine.queues[0].jobs[0].caches
        assert exists(folder)
        await ui.press("x")
        await ui.study_ended(StudyScreen)
        assert not exists(folder)
        await ui.press("z")
        assert "Stopped before the warm run" in ui.screen


async def test_another_study_ends_one_with_results_only_once_the_user_says_so():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        state = await half_done(ui)
        await ui.press("escape", "S", "M")
        modes = ui.app.screen
        assert isinstance(modes, ModesScreen)
        assert "cold compile goes on" in ui.notifications[-1]
        assert (modes.state, state.over) == (None, False)
        await ui.press("escape")
        assert not state.over
        await ui.press("S", "M", "r")
        assert isinstance(ui.app.screen, ModesScreen)
        assert ui.app.screen.state is not None
        await ui.until(lambda: state.over)


async def test_a_fix_ends_a_study_with_results_only_once_the_user_says_so():
    run = fakes.complete(7)
    async with run_app(fakes.session(run)) as ui:
        state = await half_done(ui)
        await ui.press("escape", "b", "h")
        fix = ui.app.screen
        assert isinstance(fix, FixScreen)
        assert "cold compile goes on" in ui.notifications[-1]
        assert (fix.state, state.over) == (None, False)
        await ui.press("escape")
        assert not state.over
        await ui.press("h", "r")
        assert isinstance(ui.app.screen, FixScreen)
        assert ui.app.screen.state is not None
        await ui.until(lambda: state.over)
