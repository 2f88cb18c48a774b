"""Which panes are in view, and keys that move between them."""

from __future__ import annotations

import pytest

from tests import fakes
from tests.ui.stage import stage

NAMES = ["source", "graph", "breaks", "guards", "code", "timing", "output"]


async def test_wide_terminals_show_all_panes_with_timing_and_output_in_one_place():
    async with stage(fakes.sitting(), (140, 40)) as staged:
        assert staged.in_view == NAMES[:6]
        await staged.press("7")
        assert staged.in_view == [*NAMES[:5], "output"]
        await staged.press("1")
        assert staged.in_view == [*NAMES[:5], "output"]
        await staged.press("6")
        assert staged.in_view == NAMES[:6]


@pytest.mark.parametrize("size", [(139, 50), (200, 39), (80, 24)], ids=str)
async def test_smaller_terminals_show_the_current_pane(size: tuple[int, int]):
    async with stage(fakes.sitting(), size) as staged:
        for number, name in enumerate(NAMES, 1):
            await staged.press(str(number))
            assert (staged.in_view, staged.current) == ([name], name)
            assert staged.view(name).has_focus
        await staged.press("tab")
        assert staged.current == "source"
        await staged.press("shift+tab")
        assert staged.current == "output"


async def test_zoom_shows_one_pane_until_escape():
    async with stage(fakes.sitting()) as staged:
        await staged.press("5", "z")
        assert staged.in_view == ["code"]
        await staged.press("escape")
        assert len(staged.in_view) == 6


async def test_resizing_keeps_the_current_pane():
    async with stage(fakes.sitting()) as staged:
        await staged.press("4")
        await staged.pilot.resize_terminal(80, 24)
        await staged.settle()
        assert staged.in_view == ["guards"]
        assert staged.view("guards").has_focus
        await staged.pilot.resize_terminal(160, 50)
        await staged.settle()
        assert len(staged.in_view) == 6


async def test_clicking_a_tab_shows_its_pane():
    async with stage(fakes.sitting(), (80, 24)) as staged:
        column = staged.screen.splitlines()[2].index("5 Code")
        await staged.pilot.click("#tabs", offset=(column, 0))
        await staged.settle()
        assert staged.in_view == ["code"]


async def test_hidden_panes_build_no_documents():
    async with stage(fakes.session(fakes.complete(7)), (80, 24)) as staged:
        assert len(staged.view("code").document) == 1
        await staged.press("5")
        assert len(staged.view("code").document) > 20


async def test_tiny_terminals_do_not_crash():
    async with stage(fakes.sitting(), (10, 5)) as staged:
        await staged.press("2", "down", "pagedown", "question_mark", "escape")
        await staged.pilot.resize_terminal(1, 1)
        await staged.press("3", "up")
        assert staged.current == "breaks"
