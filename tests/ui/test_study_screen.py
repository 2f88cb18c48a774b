"""A study over the panes: results as they come, stopped by a key or by leaving."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tcexplore.documents.code.target_choices import TargetChoice
from tcexplore.documents.document import Document, Row, Span, StaticDocument
from tcexplore.events import Finished
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.ui.run_actions import open_study
from tcexplore.ui.screens.diff_screen import DiffScreen
from tcexplore.ui.screens.study_screen import StudyContext, StudyScreen
from tests import fakes
from tests.studies.playback import MACHINE, failed
from tests.ui.app_under_test import AppUnderTest, run_app


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


async def opened(ui: AppUnderTest, study: TwoRuns | None = None) -> StudyScreen:
    assert ui.engine.job is not None
    screen = StudyScreen(study or TwoRuns(), StudyContext(ui.engine, ui.engine.job, None, ui.app.studies))
    await ui.app.push_screen(screen)
    await ui.pilot.pause()
    return screen


async def test_timing_pauses_while_a_study_runs():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await opened(ui)
        await ui.study_ended(StudyScreen)
        assert "run 1: ok" in ui.screen
        assert "run 2: ok" in ui.screen
        assert "done" in ui.screen
        assert (ui.engine.pauses, ui.engine.queues[0].closed) == (0, 1)


async def test_a_panes_key_leads_to_the_pane_while_the_study_goes_on():
    async with run_app(fakes.session(fakes.complete(6), fakes.complete(7))) as ui:
        screen = await opened(ui)
        await ui.pilot.press("d")
        await ui.pilot.pause()
        assert isinstance(ui.app.screen, DiffScreen)
        await ui.pilot.press("6")
        await ui.pilot.pause()
        assert len(ui.app.screen_stack) == 1
        assert ui.app.main.grid.current == "timing"
        assert ui.app.focused is ui.app.main.reader
        assert screen.study_task is not None
        await screen.study_task.ended()
        assert len(screen.study_task.state.results) == 2


async def test_a_failing_run_is_a_result():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.story = lambda job: (failed() if job.run == 1 else Finished(),)
        await opened(ui)
        await ui.study_ended(StudyScreen)
        assert "run 1: failed" in ui.screen
        assert "run 2: ok" in ui.screen


async def test_x_stops_the_study_and_keeps_its_results():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.story = lambda job: (Finished(),) if job.run == 1 else ()
        screen = await opened(ui)
        await ui.until(lambda: bool(screen.state and screen.state.results))
        assert ui.engine.pauses == 1
        assert "2 of 2" in ui.screen
        assert "is paused" in ui.screen
        await ui.press("x")
        await ui.study_ended(StudyScreen)
        assert "run 1: ok" in ui.screen
        assert "stopped after 1 result" in ui.screen
        assert (ui.engine.pauses, ui.engine.queues[0].closed) == (0, 1)
        await ui.press("x")
        assert "r runs the study again" in ui.notifications[-1]


async def test_the_title_says_how_long_a_step_has_taken(monkeypatch: pytest.MonkeyPatch):
    clock = [100.0]
    monkeypatch.setattr("tcexplore.ui.screens.study_screen.monotonic", lambda: clock[0])
    monkeypatch.setattr("tcexplore.ui.screens.study_screen.CLOCK_S", 0.01)
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.story = lambda _: ()
        await opened(ui)
        assert "1 of 2  for" not in ui.screen
        clock[0] += 12
        await ui.until(lambda: "1 of 2  for 12 s" in ui.screen)


async def test_r_restarts_the_study():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.story = lambda _: ()
        await opened(ui)
        await ui.press("r")
        assert len(ui.engine.queues) == 2
        await ui.press("x")
        await ui.study_ended(StudyScreen)
        assert [lane.closed for lane in ui.engine.queues] == [1, 1]
        assert ui.engine.pauses == 0


async def test_a_study_goes_on_when_its_screen_is_closed():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.story = lambda job: (Finished(),) if job.run == 1 else ()
        screen = await opened(ui)
        await ui.until(lambda: bool(screen.state and screen.state.results))
        await ui.press("escape")
        assert ui.app.screen is ui.app.main
        assert ui.engine.pauses == 1
        again = await opened(ui)
        assert (again.state, len(ui.engine.queues)) == (screen.state, 1)
        assert "run 1: ok" in ui.screen
        assert "2 of 2" in ui.screen
        await ui.press("x")
        await ui.study_ended(StudyScreen)
        assert ui.engine.pauses == 0


async def test_results_reach_the_app_after_the_screen_is_closed():
    class Delivering(StudyScreen):
        def _deliver(self) -> None:
            if self.state is not None and self.state.results:
                delivered.append(self.app)

    delivered: list[object] = []
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.story = lambda _: ()
        assert ui.engine.job is not None
        screen = Delivering(TwoRuns(), StudyContext(ui.engine, ui.engine.job, None, ui.app.studies))
        await ui.app.push_screen(screen)
        await ui.press("escape")
        assert delivered == []
        (queue,) = ui.engine.queues
        queue.emit(Finished(run=queue.jobs[0].run))
        await ui.until(lambda: bool(delivered))
        assert delivered[0] is ui.app


async def test_a_study_that_is_over_is_shown_again_while_the_file_is_the_same():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        screen = await opened(ui)
        await ui.study_ended(StudyScreen)
        await ui.press("escape")
        again = await opened(ui)
        assert (again.state, len(ui.engine.queues)) == (screen.state, 1)
        assert "run 2: ok" in ui.screen
        await ui.press("escape")
        assert ui.engine.job is not None
        ui.engine.job = replace(ui.engine.job, source="# changed")
        await opened(ui)
        await ui.study_ended(StudyScreen)
        assert len(ui.engine.queues) == 2


async def test_the_title_and_the_menu_show_a_study_whose_screen_is_closed():
    async with run_app(fakes.session(fakes.complete(7)), size=(160, 50)) as ui:
        ui.engine.story = lambda job: (Finished(),) if job.run == 1 else ()
        screen = await opened(ui)
        await ui.press("escape")
        await ui.until(lambda: bool(screen.state and screen.state.results))
        await ui.settle()
        assert "◐ two runs 2 of 2" in ui.screen.splitlines()[0]
        await ui.press("S")
        assert "2 of 2" in next(line for line in ui.screen.splitlines() if "cold run" in line)
        await ui.press("escape")
        ui.app.studies.stop()
        await ui.ended(screen)
        assert "◐" not in ui.screen.splitlines()[0]
        assert ui.notifications[-1] == "two runs stopped after 1 result. S shows it."


@pytest.mark.parametrize(
    ("timed", "text"),
    [
        (False, "The code for h100 is generated beside the study two runs, which takes longer."),
        (True, "The timing of the study two runs waits for the code for h100."),
    ],
)
async def test_what_code_for_a_target_means_for_a_study_is_said(timed: bool, text: str):
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.story = lambda _: ()
        study = TwoRuns()
        study.timed = timed  # type: ignore[misc]
        await opened(ui, study)
        await ui.press("escape")
        ui.app.show_target(TargetChoice("h100", "h100"))
        await ui.settle()
        assert ui.notifications[-1] == text


async def test_a_new_run_stops_the_study_whose_screen_is_closed():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.story = lambda _: ()
        screen = await opened(ui)
        await ui.press("escape")
        await ui.settle()
        assert ui.engine.job is not None
        ui.app.deliver(replace(ui.engine.job, run=8))
        await ui.ended(screen)
        assert screen.state is not None
        assert screen.state.stopped
        assert ui.engine.pauses == 0


async def test_an_exception_in_a_study_is_shown():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        study = TwoRuns()
        study.broken = True
        await opened(ui, study)
        await ui.study_ended(StudyScreen)
        assert "ValueError: no good" in ui.screen


async def test_no_key_waits_for_a_study():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.story = lambda _: ()
        screen = await opened(ui)
        async with asyncio.timeout(5):
            await ui.press("slash", "z", "escape", "question_mark", "escape")
        assert ui.app.screen is screen


async def test_a_study_needs_to_know_the_model():
    session = fakes.session(fakes.complete(7))
    unknown = replace(session.runs[-1], entry=None, status="running")
    async with run_app(replace(session, runs=(unknown,))) as ui:
        assert ui.app.session.shown is not None
        assert "not known yet" in open_study(ui.app, "recompiles", ui.engine, unknown, ui.app.studies)


async def test_the_key_of_an_open_study_closes_it():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("S", "C")
        study: object = ui.app.screen
        assert isinstance(study, StudyScreen)
        await ui.press("S", "C")
        assert ui.app.screen is ui.app.main


@pytest.mark.parametrize("theme", ["tcexplore-dark", "ansi-dark"])
async def test_the_panes_stay_in_view_above_a_study_until_z_zooms_it(theme: str):
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.app.theme = theme
        await ui.press("S", "C")
        assert "━ 1 Source" in ui.screen.splitlines()[2]
        await ui.press("z")
        assert "1 Source" not in ui.screen
        await ui.press("z")
        assert "1 Source" in ui.screen


async def test_the_menu_says_which_study_needs_a_gpu():
    async with run_app(fakes.session(fakes.complete(7)), (120, 40)) as ui:
        await ui.press("S")
        assert "needs a GPU in this machine" in ui.screen
        await ui.press("escape")
        ui.app.standby = replace(MACHINE, device="cuda: NVIDIA H200")
        await ui.press("S")
        assert "needs a GPU" not in ui.screen
        assert "What does this kernel wait for on the GPU?" in ui.screen
