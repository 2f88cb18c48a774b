"""Forms: the number of calls."""

from __future__ import annotations

import pytest

from tcexplore.ui.typed_numbers import parse_calls
from tests import fakes
from tests.ui.stage import stage


async def test_the_number_of_calls_is_used_in_the_timing_pane_and_remembered():
    async with stage(fakes.session(fakes.complete(7)), (160, 50)) as staged:
        await staged.press("6", "z", "number_sign", *"1,000", "enter")
        assert "over 1,000 calls" in staged.screen or "for 1,000 calls" in staged.screen.lower()
        assert staged.app.session.expected_calls == 1000
        await staged.press("number_sign", *"many", "enter")
        assert "whole number above 0" in staged.screen
        await staged.press("escape")
        assert staged.app.session.expected_calls == 1000


@pytest.mark.parametrize(("text", "number"), [("1,000", 1000), (" 20 000 ", 20000), ("", None), ("7", 7)])
def test_numbers_of_calls_may_have_separators(text: str, number: int | None):
    assert parse_calls(text) == number
