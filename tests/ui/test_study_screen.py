"""A study over the panes: results as they come, stopped by a key or by leaving."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

from tcexplore.documents.document import Document, Row, Span
from tcexplore.documents.document_parts import StaticDocument
from tcexplore.events import Finished
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.studies.study_runs import Runs
from tcexplore.ui.open_study import open_study
from tcexplore.ui.screens.study_screen import StudyScreen
from tests import fakes
from tests.studies.playback import failed
from tests.ui.stage import Stage, stage


class TwoRuns(Study[None, str]):
    """Runs the file two times and shows how each run ended."""

    name = "cold"
    title = "two runs"
    description = ""
    broken = False

    def options(self, given: argparse.Namespace) -> None:
        """Return no options."""

    def options_from(self, answers: Sequence[str]) -> None:
        """Return no options."""

    async def plan(self, state: StudyState[None, str], runs: Runs, announce: Announce) -> AsyncGenerator[str, None]:
        for number in (1, 2):
            announce(f"{number} of 2")
            outcome = await runs.run(state.job, 60.0)
            if self.broken:
                raise ValueError("no good")
            yield f"run {number}: {outcome.snapshot.status}"

    def document(
        self,
        state: StudyState[None, str],
        width: int = 78,  # noqa: ARG002
        toggled: frozenset[str] = frozenset(),  # noqa: ARG002
    ) -> Document:
        return StaticDocument("", tuple(Row((Span(result),)) for result in state.results))

    def fields(self, state: StudyState[None, str]) -> dict[str, Any]:  # noqa: ARG002
        return {}

    def exit_status(self, state: StudyState[None, str]) -> int:  # noqa: ARG002
        return 0


async def opened(staged: Stage, study: TwoRuns | None = None) -> StudyScreen:
    assert staged.engine.job is not None
    screen = StudyScreen(study or TwoRuns(), staged.engine, staged.engine.job)
    await staged.app.push_screen(screen)
    await staged.pilot.pause()
    return screen


async def over(staged: Stage, screen: StudyScreen) -> None:
    assert screen.study_task is not None
    await screen.study_task.ended()
    await staged.settle()


async def test_timing_pauses_while_a_study_runs():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        screen = await opened(staged)
        await over(staged, screen)
        assert "run 1: ok" in staged.screen
        assert "run 2: ok" in staged.screen
        assert "done" in staged.screen
        assert (staged.engine.pauses, staged.engine.queues[0].closed) == (0, 1)


async def test_a_failing_run_is_a_result():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        staged.engine.story = lambda job: (failed() if job.run == 1 else Finished(),)
        await over(staged, await opened(staged))
        assert "run 1: failed" in staged.screen
        assert "run 2: ok" in staged.screen


async def test_x_stops_the_study_and_keeps_its_results():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        staged.engine.story = lambda job: (Finished(),) if job.run == 1 else ()
        screen = await opened(staged)
        while not (screen.state and screen.state.results):
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
        assert "r runs the study again" in staged.said[-1]


async def test_leaving_stops_the_study_and_r_restarts_it():
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


async def test_an_exception_in_a_study_is_shown():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        study = TwoRuns()
        study.broken = True
        await over(staged, await opened(staged, study))
        assert "ValueError: no good" in staged.screen


async def test_no_key_waits_for_a_study():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        staged.engine.story = lambda _: ()
        screen = await opened(staged)
        async with asyncio.timeout(5):
            await staged.press("slash", "z", "escape", "question_mark", "escape")
        assert staged.app.screen is screen


async def test_a_study_needs_to_know_the_model():
    session = fakes.session(fakes.complete(7))
    unknown = replace(session.runs[-1], entry=None, status="running")
    async with stage(replace(session, runs=(unknown,))) as staged:
        assert staged.app.session.shown is not None
        assert "not known yet" in open_study(staged.app, "recompiles", staged.engine, unknown, {})


async def test_the_key_of_an_open_study_closes_it():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("C")
        assert isinstance(staged.app.screen, StudyScreen)
        await staged.press("C")
        assert staged.app.screen is staged.app.main
