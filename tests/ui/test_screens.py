"""Whole screens in common terminal sizes."""

from __future__ import annotations

import pytest

from tcexplore.ui.actions import footer
from tcexplore.ui.screens.diff_screen import DiffScreen
from tcexplore.ui.screens.main_screen import MainScreen
from tests import fakes
from tests.ui.app_under_test import check_screen, run_app


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 50)], ids=str)
async def test_complete_run(size: tuple[int, int]):
    async with run_app(fakes.session(fakes.complete(6), fakes.one_graph(7)), size) as ui:
        check_screen(f"complete_{size[0]}x{size[1]}", ui)


async def test_the_last_line_is_the_footer_of_the_screen():
    async with run_app(fakes.session(fakes.complete(6), fakes.one_graph(7))) as ui:
        for key, pane in (("5", "code"), ("6", "timing")):
            await ui.press(key)
            assert ui.screen.splitlines()[-1] == footer(MainScreen.SCOPES, pane)(160).text.rstrip()
        await ui.press("d")
        assert ui.screen.splitlines()[-1] == footer(DiffScreen.SCOPES)(160).text.rstrip()


async def test_before_the_first_run():
    async with run_app(size=(80, 24)) as ui:
        check_screen("waiting", ui)


async def test_the_previous_run_is_shown_as_old_while_a_run_is_under_way():
    async with run_app(fakes.session(fakes.complete(7), fakes.running(8))) as ui:
        await ui.elapse(0.5)
        check_screen("under_way", ui)


async def test_failed_run():
    async with run_app(fakes.session(fakes.complete(3), fakes.failed(4))) as ui:
        await ui.press("7")
        check_screen("failed", ui)


async def test_a_line_is_highlighted_in_all_panes():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("slash", *"gelu", "enter")
        check_screen("highlighted", ui)


@pytest.mark.parametrize("pane", range(1, 8))
async def test_each_pane_at_the_smallest_size(pane: int):
    async with run_app(fakes.session(fakes.complete(7)), (80, 24)) as ui:
        await ui.press(str(pane))
        check_screen(f"pane_{pane}_80x24", ui)


async def test_help():
    async with run_app(fakes.session(fakes.complete(7)), (100, 30)) as ui:
        await ui.press("3", "question_mark")
        check_screen("help", ui)
