"""Fixes are verified in the background once a run is measured, and shown at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore import events as ev
from tcexplore.ui.screens.fix_screen import FixScreen
from tests.fakes import complete
from tests.studies.playback import Story
from tests.studies.stories import cold_story
from tests.ui.app_under_test import AppUnderTest, run_app
from tests.ui.broken_model import GRAPH, TEXT, broken, still_there, verified

MEASURED = ev.TimingSkipped(run=1, reason="enough")


async def prepared(ui: AppUnderTest, file: Path) -> None:
    """Let the run be measured, and wait for the verification in the background."""
    ui.engine.job = ev.Job(run=1, file=str(file), source=TEXT)
    await ui.show(ui.app.session.apply(MEASURED))
    for _ in range(20):
        await ui.settle()


@asynccontextmanager
async def with_ready_fix(folder: Path) -> AsyncIterator[AppUnderTest]:
    """Run the app on a `model.py` whose break has a fix that the background has verified."""
    file = folder / "model.py"
    file.write_text(TEXT)
    async with run_app(broken(file)) as ui:
        ui.engine.story = verified
        await prepared(ui, file)
        yield ui


async def test_a_verified_fix_is_ready_before_the_key(tmp_path: Path):
    async with with_ready_fix(tmp_path) as ui:
        assert "fix ready (h): 2.0× faster than now" in ui.screen
        assert "fix: keep it a tensor ✔ h" in ui.screen
        runs = len(ui.engine.queues)
        await ui.press("3", "b", "h")
        assert isinstance(ui.app.screen, FixScreen)
        assert "verified on 4 inputs" in ui.screen
        assert len(ui.engine.queues) == runs, "no further run is made"
        assert (tmp_path / "model.py").read_text() == TEXT


async def test_a_fix_that_is_ready_is_shown_beside_a_study_that_another_run_of_it_ends(tmp_path: Path):
    async with with_ready_fix(tmp_path) as ui:
        ui.engine.story = lambda job: cold_story(job) if job.run == 1 else ()
        await ui.show(ui.app.session.apply(ev.Finished(run=1)))
        await ui.press("S", "C")
        study = ui.app.studies.under_way
        assert study is not None
        await ui.until(lambda: bool(study.state.results))
        await ui.press("escape", "3", "b", "h")
        assert isinstance(ui.app.screen, FixScreen)
        assert "verified on 4 inputs" in ui.screen
        assert not study.state.over
        await ui.press("r")
        assert "cold compile goes on" in ui.notifications[-1]
        assert not study.state.over
        await ui.press("r")
        await ui.until(lambda: study.state.over)


async def test_a_fix_that_a_screen_has_verified_is_ready(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    async with run_app(broken(file)) as ui:
        ui.engine.story = verified
        ui.engine.job = ev.Job(run=1, file=str(file), source=TEXT)
        await ui.show(ui.app.session.apply(ev.Output(run=1, stream="stdout", text="measuring")))
        assert "not verified yet" in ui.screen
        await ui.press("3", "b", "h")
        for _ in range(20):
            await ui.settle()
        assert "verified on 4 inputs" in ui.screen
        runs = len(ui.engine.queues)
        await ui.press("escape")
        await ui.settle()
        assert "fix ready (h): 2.0× faster than now" in ui.screen
        await ui.press("h")
        assert "verified on 4 inputs" in ui.screen
        assert len(ui.engine.queues) == runs, "it is not verified again"


async def test_a_verification_goes_on_when_its_screen_closes(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    async with run_app(broken(file)) as ui:
        ui.engine.story = lambda _: (GRAPH,)  # it takes long
        ui.engine.job = ev.Job(run=1, file=str(file), source=TEXT)
        await ui.show(ui.app.session.apply(ev.Output(run=1, stream="stdout", text="measuring")))
        await ui.press("3", "b", "h")
        await ui.settle()
        runs = len(ui.engine.queues)
        assert runs
        await ui.press("escape")
        await ui.settle()
        newest = ui.app.session.newest
        assert newest is not None
        assert newest.fix_under_way is not None
        await ui.press("h")
        await ui.settle()
        assert isinstance(ui.app.screen, FixScreen)
        assert len(ui.engine.queues) == runs, "it did not begin again"
        await ui.press("escape")
        await ui.settle()
        assert ui.app._fixes is not None
        ui.app._fixes.stop()  # as a study does that begins
        await ui.settle()
        newest = ui.app.session.newest
        assert newest is not None
        assert [fix.state for fix in newest.fixes] == ["proposed"]


async def test_a_refused_fix_is_never_called_ready(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    async with run_app(broken(file)) as ui:
        ui.engine.story = still_there
        await prepared(ui, file)
        assert "fix ready" not in ui.screen
        assert "no safe fix found" in ui.screen
        assert "✔ h" not in ui.screen


@pytest.mark.parametrize(
    ("second", "known"),
    [
        (lambda _: (GRAPH,), "fix: set capture_scalar_outputs, not verified yet; another was tried"),
        (lambda job: still_there(job)[:-1], "no safe fix found"),
    ],
    ids=["so far without a result", "failed, not over"],
)
async def test_what_is_known_while_the_second_fix_is_under_way(tmp_path: Path, second: Story, known: str):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    async with run_app(broken(file), (200, 50)) as ui:
        ui.engine.story = lambda job: (still_there if "detach()" in job.source else second)(job)
        ui.engine.job = ev.Job(run=1, file=str(file), source=TEXT)
        await ui.show(ui.app.session.apply(ev.Output(run=1, stream="stdout", text="measuring")))
        await ui.press("3", "b", "h")
        for _ in range(20):
            await ui.settle()
        await ui.press("escape")
        await ui.settle()
        assert known in ui.screen


async def test_what_a_stopped_verification_has_refused_is_not_proposed_again(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    async with run_app(broken(file)) as ui:
        ui.engine.story = lambda job: still_there(job) if "detach()" in job.source else (GRAPH,)
        ui.engine.job = ev.Job(run=1, file=str(file), source=TEXT)
        await ui.show(ui.app.session.apply(ev.Output(run=1, stream="stdout", text="measuring")))
        await ui.press("3", "b", "h")
        for _ in range(20):
            await ui.settle()
        await ui.press("x", "escape")
        await ui.settle()
        assert "not verified yet" not in ui.screen
        assert "no safe fix found" in ui.screen
        runs = len(ui.engine.queues)
        await prepared(ui, file)
        assert len(ui.engine.queues) == runs, "the user has stopped it"


async def test_a_fix_with_an_untested_branch_is_shown_before_refused_ones_and_not_written(tmp_path: Path):
    unreached = ("with none of 4 inputs, `x > 0` in line 5 holds",)
    untested = (GRAPH, ev.ChangeChecked(verdict="identical", calls=1, varied=3, unreached=unreached), ev.Finished())
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    async with run_app(broken(file)) as ui:
        ui.engine.story = lambda job: untested if "detach()" in job.source else still_there(job)
        await prepared(ui, file)
        assert "fix ready" not in ui.screen
        assert "fix: keep it a tensor, a branch is untested h" in ui.screen
        await ui.press("3", "b", "h")
        assert "not verified: a branch could not be tried: with none of 4 inputs" in ui.screen
        assert "Add a call to `inputs` that takes this branch" in ui.screen
        assert "also tried: set capture_scalar_outputs: " in ui.screen
        await ui.press("w")
        assert file.read_text() == TEXT


async def test_a_program_counts_as_measured_once_its_lines_are_timed(tmp_path: Path):
    """A verdict alone is not enough: on a GPU, calls are profiled seconds later, and another run pauses that."""
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    async with run_app(broken(file)) as ui:
        ui.engine.story = verified
        ui.engine.job = ev.Job(run=1, file=str(file), source=TEXT)
        timing = complete(1).timing
        assert timing is not None
        await ui.show(ui.app.session.apply(replace(timing, verdict="faster", pairs_taken=80, run=1)))
        await ui.settle()
        assert ui.engine.queues == []
        missing = ev.FactMissing(run=1, fact=ev.RunFact.LINE_TIMES, symbol="", reason="profiler busy")
        await ui.show(ui.app.session.apply(missing))
        for _ in range(20):
            await ui.settle()
        assert "fix ready (h)" in ui.screen


async def test_the_fixes_of_a_script_are_verified_after_its_captured_calls(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    async with run_app(broken(file)) as ui:
        ui.engine.story = verified
        ui.engine.job = ev.Job(run=1, file=str(file), source=TEXT)
        script = ev.EntryFound(run=1, name="__main__", kind="script", rule="", calls=())
        ended = ev.ScriptEnded(run=1, seconds=3.0)
        await ui.show(ui.app.session.apply(script).apply(ended).apply(ev.PhaseStarted(run=1, phase="timing", at=0.0)))
        await ui.settle()
        assert ui.engine.queues == []
        await ui.show(ui.app.session.apply(ev.PhaseStarted(run=1, phase="answering", at=0.0)))
        for _ in range(20):
            await ui.settle()
        assert ui.engine.queues


async def test_nothing_is_verified_before_the_run_is_measured(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    async with run_app(broken(file)) as ui:
        ui.engine.job = ev.Job(run=1, file=str(file), source=TEXT)
        await ui.show(ui.app.session.apply(ev.Output(run=1, stream="stdout", text="measuring")))
        await ui.settle()
        assert ui.engine.queues == []
        assert "not verified yet" in ui.screen
