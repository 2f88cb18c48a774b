"""Why two kernels were not fused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore.ui.screens.reading_screen import AnswerScreen
from tests import fakes
from tests.snapshots import training
from tests.ui.app_under_test import check_screen, run_app

COMPARE = ("5", "home", "down", "down", "down", "equals_sign", "down", "equals_sign")
"""Mark the second kernel in the list of the code pane, and compare it with the third."""


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 50)], ids=str)
async def test_fusion_reasons(size: tuple[int, int]):
    async with run_app(fakes.session(training.run(3)), size) as ui:
        await ui.press(*COMPARE)
        check_screen(f"fusion_reasons_{size[0]}x{size[1]}", ui)


async def test_fusion_reasons_can_be_scrolled_copied_and_left():
    async with run_app(fakes.session(training.run(3)), (80, 24)) as ui:
        await ui.press(*COMPARE)
        screen = ui.app.screen
        assert isinstance(screen, AnswerScreen)
        await ui.press("end")
        assert screen.reader.cursor == len(screen.reader.document) - 1
        await ui.press("Y")
        assert "not fused" in ui.app.clipboard
        await ui.press("escape")
        assert ui.app.screen is ui.app.main


async def test_a_mark_is_shown_and_removed():
    async with run_app(fakes.session(training.run(3))) as ui:
        await ui.press("5", "home", "down", "equals_sign")
        assert "⚑ kernel 1" in str(ui.pane("code").border_title)
        assert any("⚑" in strip.text for strip in ui.view("code").render_lines(ui.view("code").size.region))
        assert "go to another" in ui.notifications[-1]
        await ui.press("equals_sign")
        assert "⚑" not in ui.screen
        assert "no longer marked" in ui.notifications[-1]


async def test_a_message_explains_how_to_compare_two_kernels():
    async with run_app(fakes.session(training.run(3))) as ui:
        await ui.press("equals_sign")
        assert "code pane" in ui.notifications[-1]


async def test_a_mark_ends_with_its_run():
    async with run_app(fakes.session(training.run(3))) as ui:
        await ui.press("5", "home", "down", "equals_sign")
        assert "⚑" in str(ui.pane("code").border_title)
        assert ui.engine.job is not None
        ui.app.deliver(replace(ui.engine.job, run=4))
        await ui.settle()
        assert "⚑" not in str(ui.pane("code").border_title)
        assert ui.view("code").marked is None


async def test_a_mark_ends_with_the_target_in_view():
    run = training.run(3)
    async with run_app(fakes.session(run)) as ui:
        await ui.press("5", "home", "down", "equals_sign")
        assert ui.view("code").marked is not None
        await ui.show(fakes.session(run.with_target("h100")))
        assert ui.view("code").marked is None, "another code has another kernel of this name"
