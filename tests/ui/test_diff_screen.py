"""Two saves beside each other, and the base that saves are compared with."""

from __future__ import annotations

import pytest

from tcexplore.ui.screens.diff_screen import DiffScreen
from tests import fakes
from tests.documents.views import edited, same
from tests.snapshots import gate
from tests.ui.stage import Stage, check_screen, stage


def comparison(staged: Stage) -> DiffScreen:
    screen = staged.app.screen
    assert isinstance(screen, DiffScreen)
    return screen


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 50)], ids=str)
async def test_the_screen(size: tuple[int, int]):
    async with stage(fakes.session(gate.run(3), edited()), size) as staged:
        await staged.press("d")
        check_screen(f"diff_{size[0]}x{size[1]}", staged)


async def test_a_run_is_compared_with_the_base_or_the_one_before():
    async with stage(fakes.session(gate.run(3), edited(), same())) as staged:
        await staged.press("d")
        assert "run 4 → run 5" in staged.screen
        await staged.press("left_square_bracket")
        assert "run 3 → run 5" in staged.screen
        assert "SAME PROGRAM" in staged.screen
        await staged.press("left_square_bracket")
        assert "No other run" in staged.said[-1]
        await staged.press("escape", "left_square_bracket", "left_square_bracket", "p", "right_curly_bracket")
        assert "3 base" in staged.screen
        assert "since base, run 3" in staged.screen
        await staged.press("d")
        assert "run 3 → run 5" in staged.screen
        await staged.press("d", "p")
        assert "5 base" in staged.screen
        await staged.press("p")
        assert "base" not in staged.screen


async def test_the_next_save_is_compared_as_soon_as_it_is_known():
    async with stage(fakes.session(gate.run(3))) as staged:
        await staged.press("d")
        assert "Nothing to compare with" in staged.screen
        await staged.show(fakes.session(gate.run(3), fakes.running(4)))
        assert "Nothing to compare with" in staged.screen
        await staged.show(fakes.session(gate.run(3), edited()))
        assert "run 3 → run 4" in staged.screen


async def test_parts_fold_and_are_gone_through():
    async with stage(fakes.session(gate.run(3), edited())) as staged:
        await staged.press("d", "tab")
        view = comparison(staged).reader
        first, length = view.cursor, len(view.document)
        await staged.press("enter")
        assert len(view.document) < length
        await staged.press("tab")
        assert view.cursor > first
        await staged.press("shift+tab")
        assert view.cursor == first


async def test_it_is_searched_and_copied_like_a_pane():
    async with stage(fakes.session(gate.run(3), edited())) as staged:
        await staged.press("d", "slash", *"twice")
        assert "1 of " in staged.screen
        await staged.press("enter", "y", "escape")
        assert "twice" in staged.app.clipboard
        await staged.press("escape")
        assert staged.app.screen is staged.app.main


async def test_help_and_palette_have_its_keys():
    async with stage(fakes.session(gate.run(3), edited()), (100, 50)) as staged:
        await staged.press("d", "question_mark")
        assert "Compare" in staged.screen
        await staged.press("escape")
        titles = [command.title for command in staged.app.get_system_commands(staged.app.screen)]
        assert "Compare with an earlier run" in titles
        assert "Go to the next graph break" not in titles
