"""The artifacts study from the command palette."""

from __future__ import annotations

import pytest

from tcexplore.ui.palette import CommandProvider
from tcexplore.ui.screens.study_screen import StudyScreen
from tests import fakes
from tests.studies.stories import artifacts_story
from tests.ui.app_under_test import check_screen, run_app


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)
async def test_saved_artifacts_and_their_gain(size: tuple[int, int]):
    async with run_app(fakes.session(fakes.complete(7)), size) as ui:
        ui.engine.story = artifacts_story
        assert "artifacts" in [command.note for command in CommandProvider(ui.app.screen).commands()]
        await ui.app.run_action("study('artifacts')")
        await ui.pilot.pause()
        screen = await ui.study_ended(StudyScreen)
        document = screen.reader.document
        text = " ".join(" ".join(document.row(index).text for index in range(len(document))).split())
        assert "Second process: 1 hit, first call 4.90 s faster" in text
        check_screen(f"artifacts_{size[0]}x{size[1]}", ui)
