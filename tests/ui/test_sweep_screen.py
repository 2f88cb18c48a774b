"""The sweep screen: a prompt for sizes, then a row for each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tcexplore import events as ev
from tcexplore.ui.screens.study_screen import StudyScreen
from tests import fakes
from tests.studies.playback import failed, timed
from tests.ui.stage import Stage, check_screen, stage

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


async def prompted(staged: Stage) -> StudyScreen:
    await staged.press("S")
    screen = staged.app.screen_stack[-2]
    assert isinstance(screen, StudyScreen)
    return screen


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)
async def test_suggested_sizes_are_run(size: tuple[int, int]):
    async with stage(fakes.session(fakes.complete(7)), size) as staged:
        staged.engine.story = story
        screen = await prompted(staged)
        check_screen(f"sweep_prompt_{size[0]}x{size[1]}", staged)
        await staged.press("enter", "enter")
        assert screen.study_task is not None
        await screen.study_task.ended()
        await staged.settle()
        check_screen(f"sweep_{size[0]}x{size[1]}", staged)
        over = [job.config.sizes for job in staged.engine.queues[0].jobs]
        assert over == [SIZES, SIZES, *((size,) for size in SIZES for _ in (1, 2))]


async def test_an_invalid_size_has_a_message():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        staged.engine.story = story
        screen = await prompted(staged)
        await staged.press("enter", *"1 2 x", "enter")
        assert "Sizes are whole numbers above 0" in staged.screen
        await staged.press("backspace", "backspace", "enter")
        assert staged.app.screen is screen
        assert screen.study_task is not None
        await screen.study_task.ended()
        assert staged.engine.queues[0].jobs[0].config.sizes == (1, 2)


async def test_leaving_the_prompt_leaves_the_sweep():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await prompted(staged)
        await staged.press("escape")
        assert staged.app.screen is staged.app.main
        assert staged.engine.queues == []
