"""The editor and the clipboard."""

from __future__ import annotations

import os

import pytest

from tcexplore.events import Location
from tcexplore.ui.terminal_driver import copy
from tcexplore.ui.user_files import command
from tests import fakes
from tests.ui.app_under_test import run_app

PLACE = Location("/a b/m.py", 7)


@pytest.mark.parametrize(
    ("editor", "expected"),
    [
        ("vim", ["vim", "+7", "/a b/m.py"]),
        ("/usr/bin/nvim -u NONE", ["/usr/bin/nvim", "-u", "NONE", "+7", "/a b/m.py"]),
        ("code --wait", ["code", "-g", "/a b/m.py:7"]),
        ("code -g", ["code", "-g", "/a b/m.py:7"]),
        ("hx", ["hx", "/a b/m.py:7"]),
        ("emacs -nw", ["emacs", "-nw", "+7", "/a b/m.py"]),
    ],
)
def test_editors_open_at_the_line(editor: str, expected: list[str]):
    assert command(PLACE, {"EDITOR": editor}) == expected
    assert command(PLACE, {"EDITOR": "ed", "VISUAL": editor}) == expected


async def test_a_missing_editor_is_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VISUAL", "no-such-editor-anywhere")
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("e")
        assert "no-such-editor-anywhere" in ui.notifications[-1]


async def test_copying_a_row_and_a_pane():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("home", "y")
        assert ui.app.clipboard == '"""A perceptron with one graph break.'
        await ui.press("Y")
        assert "class MLP" in ui.app.clipboard
        assert "Copied" in ui.notifications[-1]


async def test_text_too_large_for_the_clipboard_is_written_to_a_file():
    async with run_app() as ui:
        message = copy(ui.app, "x" * 100_000)
        assert ui.app.clipboard == ""
    _assert_holds(message.split()[-1], "x" * 100_000)


def _assert_holds(path: str, text: str) -> None:
    with open(path) as file:
        assert file.read() == text
    os.unlink(path)
