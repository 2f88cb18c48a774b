"""Which panes are in view, and keys that move between them."""

from __future__ import annotations

import pytest

from tests import fakes
from tests.ui.app_under_test import run_app

NAMES = ["source", "graph", "breaks", "guards", "code", "timing", "output"]


async def test_wide_terminals_show_all_panes_with_timing_and_output_in_one_place():
    async with run_app(fakes.sitting(), (140, 40)) as ui:
        assert ui.in_view == NAMES[:6]
        await ui.press("7")
        assert ui.in_view == [*NAMES[:5], "output"]
        await ui.press("1")
        assert ui.in_view == [*NAMES[:5], "output"]
        await ui.press("6")
        assert ui.in_view == NAMES[:6]


@pytest.mark.parametrize("size", [(139, 50), (200, 39), (100, 30)], ids=str)
async def test_medium_terminals_show_the_source_beside_the_last_other_pane(size: tuple[int, int]):
    async with run_app(fakes.session(fakes.one_graph(7)), size) as ui:
        assert ui.in_view == ["source", "graph"]
        for number, name in enumerate(NAMES[1:], 2):
            await ui.press(str(number))
            assert (ui.in_view, ui.current) == (["source", name], name)
            assert ui.view(name).has_focus
        await ui.press("1")
        assert ui.in_view == ["source", "output"]


async def test_the_breaks_are_beside_the_source_until_the_user_goes_to_another_pane():
    async with run_app(fakes.session(fakes.complete(6)), (120, 40)) as ui:
        assert ui.in_view == ["source", "breaks"]
        await ui.press("5", "1")
        await ui.show(fakes.session(fakes.complete(7), fakes.complete(8)))
        assert ui.in_view == ["source", "code"]


async def test_keys_change_the_sizes_of_panes():
    async with run_app(fakes.session(fakes.complete(7)), (160, 50)) as ui:
        width, height = ui.pane("source").outer_size
        await ui.act("wider")
        await ui.act("lower")
        assert ui.pane("source").outer_size.width > width
        assert ui.pane("source").outer_size.height < height
        await ui.act("default-sizes")
        assert ui.pane("source").outer_size == (width, height)
        for _ in range(30):
            await ui.act("wider")
        assert min(pane.outer_size.width for pane in ui.app.main.grid.visible_panes) > 20
        await ui.pilot.resize_terminal(120, 40)
        await ui.press("2")
        await ui.act("wider")
        assert ui.pane("graph").outer_size.width > ui.pane("source").outer_size.width


@pytest.mark.parametrize("size", [(99, 50), (80, 24)], ids=str)
async def test_smaller_terminals_show_the_current_pane(size: tuple[int, int]):
    async with run_app(fakes.sitting(), size) as ui:
        for number, name in enumerate(NAMES, 1):
            await ui.press(str(number))
            assert (ui.in_view, ui.current) == ([name], name)
            assert ui.view(name).has_focus
        await ui.press("tab")
        assert ui.current == "source"
        await ui.press("shift+tab")
        assert ui.current == "output"


async def test_zoom_shows_one_pane_until_escape():
    async with run_app(fakes.sitting()) as ui:
        await ui.press("5", "z")
        assert ui.in_view == ["code"]
        await ui.press("escape")
        assert len(ui.in_view) == 6


async def test_resizing_keeps_the_current_pane():
    async with run_app(fakes.sitting()) as ui:
        await ui.press("4")
        await ui.pilot.resize_terminal(80, 24)
        await ui.settle()
        assert ui.in_view == ["guards"]
        assert ui.view("guards").has_focus
        await ui.pilot.resize_terminal(160, 50)
        await ui.settle()
        assert len(ui.in_view) == 6


async def test_clicking_a_tab_shows_its_pane():
    async with run_app(fakes.sitting(), (80, 24)) as ui:
        column = ui.screen.splitlines()[2].index("5 Code")
        await ui.pilot.click("#tabs", offset=(column, 0))
        await ui.settle()
        assert ui.in_view == ["code"]


async def test_hidden_panes_build_no_documents():
    async with run_app(fakes.session(fakes.complete(7)), (80, 24)) as ui:
        assert len(ui.view("code").document) == 1
        await ui.press("5")
        assert len(ui.view("code").document) > 20


async def test_tiny_terminals_do_not_crash():
    async with run_app(fakes.sitting(), (10, 5)) as ui:
        await ui.press("2", "down", "pagedown", "question_mark", "escape")
        await ui.pilot.resize_terminal(1, 1)
        await ui.press("3", "up")
        assert ui.current == "breaks"


async def test_going_to_a_break_scrolls_to_its_expression():
    graph_break = fakes.complete(6).breaks[0]
    async with run_app(fakes.session(fakes.complete(6)), (100, 30)) as ui:
        for _ in range(8):
            await ui.act("narrower")
        await ui.press("2", "b")
        line = next(line for line in ui.screen.splitlines() if line.startswith("│") and "print(" in line)
        assert graph_break.code.strip()[:6] in line
        assert ui.view("source").column > 0
        await ui.press("1", "g")
        assert ui.view("source").column == 0
