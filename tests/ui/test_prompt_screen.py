"""Forms: the number of calls."""

from __future__ import annotations

import pytest

from tcexplore.ui.screens.prompt_screen import parse_calls
from tests import fakes
from tests.ui.app_under_test import run_app


async def test_the_answer_for_a_number_of_calls_is_said_in_any_pane():
    async with run_app(fakes.session(fakes.complete(7)), (160, 50)) as ui:
        await ui.press("4", "z", "S", "number_sign", *"1,000", "enter")
        assert "for 1,000 calls" in ui.screen
        assert "4 Guards" in ui.screen


async def test_the_number_of_calls_is_used_in_the_timing_pane_and_remembered():
    async with run_app(fakes.session(fakes.complete(7)), (160, 50)) as ui:
        await ui.press("6", "z", "S", "number_sign", *"1,000", "enter")
        assert "over 1,000 calls" in ui.screen or "for 1,000 calls" in ui.screen.lower()
        assert ui.app.session.expected_calls == 1000
        await ui.press("S", "number_sign", *"many", "enter")
        assert "whole number above 0" in ui.screen
        await ui.press("escape")
        assert ui.app.session.expected_calls == 1000


@pytest.mark.parametrize(("text", "number"), [("1,000", 1000), (" 20 000 ", 20000), ("", None), ("7", 7)])
def test_numbers_of_calls_may_have_separators(text: str, number: int | None):
    assert parse_calls(text) == number
