"""The study of environments in the app: it begins at once with several, and otherwise asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.screen import Screen
from textual.widgets import Input

from tcexplore import events as ev
from tcexplore.model_python import ModelPython
from tcexplore.supervisor import supervisor
from tcexplore.ui.screens.main_screen import MainScreen
from tcexplore.ui.screens.modes_screen import EnvironmentsScreen, ModesScreen
from tcexplore.ui.screens.prompt_screen import PromptScreen
from tests import fakes
from tests.environments.fake_pythons import fake_environment
from tests.studies.playback import GRAPH, JOB, Playback, timed
from tests.ui.app_under_test import AppUnderTest, run_app

OLD = ModelPython("/old/bin/python", "--python", "3.11.7", "2.11.0", "/old")
NEW = ModelPython("/new/bin/python", "--python", "3.12.4", "2.15.0", "/new")


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[ev.Job]:
    """The jobs of all environments; the runs of torch 2.15 have one graph more."""
    made: list[ev.Job] = []

    def story(job: ev.Job) -> list[ev.Event]:
        more = [replace(GRAPH, graph="1/0")] if "new" in job.python else []
        return [GRAPH, *more, timed(1.5), ev.Finished()]

    def queue(pythons: Mapping[str, ModelPython], emit: Callable[[ev.Event], None]) -> Playback:
        assert len(pythons) > 1
        return Playback(emit, story, made)

    monkeypatch.setattr(supervisor, "EnvironmentQueue", queue)
    return made


async def finished(ui: AppUnderTest) -> EnvironmentsScreen:
    return await ui.study_ended(EnvironmentsScreen)


async def test_several_environments_are_compared_at_once(jobs: list[ev.Job]):
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.pythons = (OLD, NEW)
        await ui.press("S", "M")
        await finished(ui)
        text = " ".join(ui.screen.split())
        assert "since torch 2.15.0, compared with torch 2.11.0" in text
        assert "graphs 1 → 2" in text
        assert {job.python for job in jobs} == {OLD.executable, NEW.executable}
        assert ui.engine.pauses == 0
        await ui.press("E")
        assert _is_open(ui, ModesScreen)
        await ui.press("E")
        count = len(jobs)
        assert _is_open(ui, EnvironmentsScreen)
        assert "graphs 1 → 2" in ui.screen, "the results are kept"
        assert len(jobs) == count
        await ui.press("S", "M")
        assert _is_open(ui, MainScreen)


async def test_one_environment_asks_for_others(jobs: list[ev.Job], tmp_path: Path):
    old, new = (
        fake_environment(tmp_path / "venv", torch="2.11.0"),
        fake_environment(tmp_path / "new one", torch="2.15.0"),
    )
    broken = fake_environment(tmp_path / "broken", torch="")
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.job = replace(JOB, file=str(tmp_path / "model.py"))
        await ui.press("S", "M", "E")
        assert isinstance(ui.app.screen, PromptScreen)
        assert str(old) in ui.app.screen.query_one(Input).value, "an environment beside the file is proposed"
        await _answer(ui, str(old))
        assert "at least two environments" in ui.screen
        await _answer(ui, f"{old} {broken}")
        assert "has no torch" in ui.screen
        await _answer(ui, f"{old} {old}/bin/python")
        assert "the same environment" in ui.screen
        await _answer(ui, f"{old} '{new}'")
        await finished(ui)
        assert [job.python for job in jobs[:2]] == [str(old / "bin" / "python"), str(new / "bin" / "python")]
        assert "since torch 2.15.0" in ui.screen


async def test_escape_in_the_question_leaves_the_screen():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("S", "M", "E", "escape")
        assert _is_open(ui, MainScreen)


async def _answer(ui: AppUnderTest, text: str) -> None:
    ui.app.screen.query_one(Input).value = text
    await ui.press("enter")


def _is_open(ui: AppUnderTest, kind: type[Screen[Any]]) -> bool:
    return type(ui.app.screen) is kind
