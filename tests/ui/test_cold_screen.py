"""The cold compile screen: both runs, their caches, and no files left behind."""

from __future__ import annotations

import pytest

from tcexplore.ui.screens.study_screen import StudyScreen
from tests import fakes
from tests.studies.test_cold import exists, story
from tests.ui.stage import Stage, check_screen, stage


async def opened(staged: Stage) -> StudyScreen:
    await staged.press("C")
    screen = staged.app.screen
    assert isinstance(screen, StudyScreen)
    return screen


async def over(staged: Stage, screen: StudyScreen) -> None:
    assert screen.study_task is not None
    await screen.study_task.ended()
    await staged.settle()


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)
async def test_both_runs_and_their_caches(size: tuple[int, int]):
    async with stage(fakes.session(fakes.complete(7)), size) as staged:
        staged.engine.story = story
        await over(staged, await opened(staged))
        check_screen(f"cold_{size[0]}x{size[1]}", staged)


async def test_the_folder_is_removed_when_the_study_is_stopped():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        staged.engine.story = lambda job: story(job) if job.run == 1 else ()
        screen = await opened(staged)
        while len(staged.engine.queues[0].jobs) < 2:
            await staged.pilot.pause()
        folder = staged.engine.queues[0].jobs[0].caches
        assert exists(folder)
        await staged.press("x")
        await over(staged, screen)
        assert not exists(folder)
        assert "Stopped before the warm run" in staged.screen
