"""Why two kernels were not fused."""

from __future__ import annotations

import pytest

from tcexplore.ui.screens.overlay_screen import AnswerScreen
from tests import fakes
from tests.snapshots import gate
from tests.ui.stage import check_screen, stage

COMPARE = ("5", "home", "down", "down", "down", "m", "down", "w")
"""Mark the second kernel in the list of the code pane, and compare it with the third."""


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 50)], ids=str)
async def test_fusion_reasons(size: tuple[int, int]):
    async with stage(fakes.session(gate.run(3)), size) as staged:
        await staged.press(*COMPARE)
        check_screen(f"fusion_reasons_{size[0]}x{size[1]}", staged)


async def test_fusion_reasons_can_be_scrolled_copied_and_left():
    async with stage(fakes.session(gate.run(3)), (80, 24)) as staged:
        await staged.press(*COMPARE)
        screen = staged.app.screen
        assert isinstance(screen, AnswerScreen)
        await staged.press("end")
        assert screen.reader.cursor == len(screen.reader.document) - 1
        await staged.press("Y")
        assert "not fused" in staged.app.clipboard
        await staged.press("escape")
        assert staged.app.screen is staged.app.main


async def test_a_mark_is_shown_and_removed():
    async with stage(fakes.session(gate.run(3))) as staged:
        await staged.press("5", "home", "down", "m")
        assert "⚑ kernel 1" in str(staged.pane("code").border_title)
        assert any("⚑" in strip.text for strip in staged.view("code").render_lines(staged.view("code").size.region))
        await staged.press("w")
        assert "go to another" in staged.said[-1]
        await staged.press("m")
        assert "⚑" not in staged.screen


async def test_the_user_is_told_how_to_compare_two_kernels():
    async with stage(fakes.session(gate.run(3))) as staged:
        await staged.press("m")
        assert "code pane" in staged.said[-1]
        await staged.press("5", "w")
        assert "Mark one" in staged.said[-1]
