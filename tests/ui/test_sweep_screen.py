"""The sweep screen: a prompt for sizes, then a row for each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tcexplore import events as ev
from tcexplore.ui.screens.study_screen import StudyScreen
from tests import fakes
from tests.studies.playback import failed, timed
from tests.ui.app_under_test import AppUnderTest, check_screen, run_app

SIZES = (1, 4, 16, 64, 256)


def story(job: ev.Job) -> Sequence[ev.Event]:
    """Return higher speedups for larger sizes; 64 fails with dynamic shapes."""
    config = job.config
    if len(config.sizes) > 1:
        compiles = [1, 1, 0, 0, 0] if config.dynamic is None else [1, 0, 0, 0, 0]
        called = [ev.CallMade(index=i, variant="compiled", seconds=1.0, compiles=n) for i, n in enumerate(compiles)]
        return [*called, ev.Finished()]
    if config.dynamic and config.sizes == (64,):
        return [failed()]
    return [timed(0.5 * config.sizes[0] ** 0.25), ev.Finished()]


async def prompted(ui: AppUnderTest) -> StudyScreen:
    await ui.press("S", "S")
    screen = ui.app.screen_stack[-2]
    assert isinstance(screen, StudyScreen)
    return screen


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)
async def test_suggested_sizes_are_run(size: tuple[int, int]):
    async with run_app(fakes.session(fakes.complete(7)), size) as ui:
        ui.engine.story = story
        await prompted(ui)
        check_screen(f"sweep_prompt_{size[0]}x{size[1]}", ui)
        await ui.press("enter", "enter")
        await ui.study_ended(StudyScreen)
        check_screen(f"sweep_{size[0]}x{size[1]}", ui)
        jobs = sorted((job for queue in ui.engine.queues for job in queue.jobs), key=lambda job: job.run)
        over = [job.config.sizes for job in jobs]
        each = [(size,) for size in SIZES]
        assert over == [*each, SIZES, SIZES, *each], "static first, then dynamic over all sizes"


async def test_an_invalid_size_has_a_message():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.story = story
        screen = await prompted(ui)
        await ui.press("enter", *"1 2 x", "enter")
        assert "Sizes are whole numbers above 0" in ui.screen
        await ui.press("backspace", "backspace", "enter")
        assert ui.app.screen is screen
        await ui.study_ended(StudyScreen)
        assert {job.config.sizes for queue in ui.engine.queues for job in queue.jobs} == {(1,), (2,), (1, 2)}


async def test_leaving_the_prompt_leaves_the_sweep():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await prompted(ui)
        await ui.press("escape")
        assert ui.app.screen is ui.app.main
        assert ui.engine.queues == []
