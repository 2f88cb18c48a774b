"""What can be kept of the compile, from the command palette: both runs side by side."""

from __future__ import annotations

import pytest

from tcexplore.ui.screens.artifacts_screen import ShipScreen
from tests import fakes
from tests.studies.test_ship import story
from tests.ui.stage import check_screen, stage


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)
async def test_what_was_saved_and_what_loading_it_spared(size: tuple[int, int]):
    async with stage(fakes.session(fakes.complete(7)), size) as staged:
        staged.engine.story = story
        commands = {command.help: command for command in staged.app.get_system_commands(staged.app.screen)}
        await commands["cache artifacts"].callback()
        await staged.pilot.pause()
        screen = staged.app.screen
        assert isinstance(screen, ShipScreen)
        assert screen.study is not None
        await screen.study.ended()
        await staged.settle()
        assert "5.00 s spared at the first call" in staged.screen
        check_screen(f"ship_{size[0]}x{size[1]}", staged)
