"""Markup and escape sequences of the user's program are shown as text in every pane."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore.events import clean
from tests import fakes
from tests.documents.untrusted import NASTY, nasty
from tests.ui.app_under_test import run_app

ESCAPES = clean("\x1b]52;c;AAAA\x07\x1b[2J\x9b31m\u202eevil")


@pytest.mark.parametrize("pane", range(1, 8))
async def test_markup_is_shown_as_text(pane: int):
    async with run_app(fakes.session(nasty()), (200, 30)) as ui:
        await ui.press(str(pane))
        assert NASTY[:12] in ui.screen


async def test_nothing_on_the_screen_can_move_the_cursor():
    run = fakes.complete(7)
    named = replace(run, file=f"/tmp/{ESCAPES}.py", source=f"# {ESCAPES}\n{NASTY}\n")
    async with run_app(fakes.session(named)) as ui:
        await ui.press("down", "y", "slash", *"evil", "enter")
        assert all(char.isprintable() or char == "\n" for char in ui.screen)
