"""A study over the panes: results as they come, stopped by a key or by leaving."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

from tcexplore.documents.document import Document, Row, Span
from tcexplore.documents.document_parts import StaticDocument
from tcexplore.events import Finished, Job
from tcexplore.studies.study_runs import Going, Runs, Say
from tcexplore.ui.screens.study_screen import StudyScreen
from tcexplore.ui.study_keys import Studies
from tcexplore.ui.study_task import StudyTask
from tests import fakes
from tests.studies.playing import failed
from tests.ui.stage import Stage, stage


class Twice(StudyScreen[str]):
    """Runs the file twice and shows how each run ended."""

    NAME = "twice"
    BROKEN = False

    def going(self) -> Going[str]:
        async def twice(job: Job, runs: Runs, say: Say) -> AsyncGenerator[str, None]:
            for number in (1, 2):
                say(f"{number} of 2")
                outcome = await runs.run(job, 60.0)
                if self.BROKEN:
                    raise ValueError("no good")
                yield f"run {number}: {outcome.snapshot.status}"

        return twice

    def build(self, study: StudyTask[str], width: int) -> Document:  # noqa: ARG002
        return StaticDocument("", tuple(Row((Span(said),)) for said in study.found))


async def opened(staged: Stage) -> Twice:
    screen = Twice(staged.engine, fakes_job(staged))
    await staged.app.push_screen(screen)
    await staged.pilot.pause()
    return screen


def fakes_job(staged: Stage) -> Job:
    assert staged.engine.job is not None
    return staged.engine.job


async def over(staged: Stage, screen: Twice) -> None:
    assert screen.study is not None
    await screen.study.ended()
    await staged.settle()


async def test_results_are_shown_and_the_files_own_timing_waits_meanwhile():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        screen = await opened(staged)
        await over(staged, screen)
        assert "run 1: ok" in staged.screen
        assert "run 2: ok" in staged.screen
        assert "done" in staged.screen
        assert (staged.engine.pauses, staged.engine.queues[0].closed) == (0, 1)


async def test_a_run_that_fails_is_a_result_like_another():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        staged.engine.story = lambda job: (failed() if job.run == 1 else Finished(),)
        await over(staged, await opened(staged))
        assert "run 1: failed" in staged.screen
        assert "run 2: ok" in staged.screen


async def test_x_stops_what_would_go_on_and_keeps_what_is_there():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        staged.engine.story = lambda job: (Finished(),) if job.run == 1 else ()
        screen = await opened(staged)
        while not (screen.study and screen.study.found):
            await staged.pilot.pause()
        assert staged.engine.pauses == 1
        assert "2 of 2" in staged.screen
        assert "is paused" in staged.screen
        await staged.press("x")
        await over(staged, screen)
        assert "run 1: ok" in staged.screen
        assert "stopped after 1 result" in staged.screen
        assert (staged.engine.pauses, staged.engine.queues[0].closed) == (0, 1)
        await staged.press("x")
        assert "r begins anew" in staged.said[-1]


async def test_leaving_stops_it_and_r_begins_it_anew():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        staged.engine.story = lambda _: ()
        screen = await opened(staged)
        await staged.press("r")
        assert len(staged.engine.queues) == 2
        await staged.press("escape")
        assert staged.app.screen is staged.app.main
        await over(staged, screen)
        assert [lane.closed for lane in staged.engine.queues] == [1, 1]
        assert staged.engine.pauses == 0


async def test_a_study_that_breaks_says_so():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        Twice.BROKEN = True
        try:
            await over(staged, await opened(staged))
        finally:
            Twice.BROKEN = False
        assert "ValueError: no good" in staged.screen


async def test_no_key_waits_for_a_study():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        staged.engine.story = lambda _: ()
        screen = await opened(staged)
        async with asyncio.timeout(5):
            await staged.press("slash", "z", "escape", "question_mark", "escape")
        assert staged.app.screen is screen


async def test_what_a_file_compiles_must_be_known_before_it_is_run_in_other_ways():
    session = fakes.session(fakes.complete(7))
    unknown = replace(session.runs[-1], entry=None, status="running")
    async with stage(replace(session, runs=(unknown,))) as staged:
        assert staged.app.session.shown is not None
        said = Studies().open(staged.app, "storm", staged.engine, unknown)
        assert "not known yet" in said
