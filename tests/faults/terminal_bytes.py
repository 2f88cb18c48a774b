"""What the bytes of a program do to a terminal, as a real emulator parses them."""

from __future__ import annotations

import re
from typing import Any

import pyte

_STYLES = re.compile(r"\x1b\[[0-9;]*m")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

HARMLESS = {"draw", "linefeed", "tab", "select_graphic_rendition"}
"""Commands that only show text."""


class _Recorder:
    """Records the names of the commands that the emulator gets."""

    def __init__(self) -> None:
        self.commands: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self.commands.add(name)


def terminal_commands(text: str) -> set[str]:
    """Return the names of the commands, other than showing text, that a terminal executes."""
    recorder = _Recorder()
    pyte.Stream(recorder).feed(text)
    return recorder.commands - HARMLESS


def control_characters(text: str) -> list[str]:
    """Return the control characters, apart from the escape sequences of colors."""
    return _CONTROL.findall(_STYLES.sub("", text))


def assert_safe(text: str) -> None:
    """Assert that a terminal only shows the text, in colors."""
    assert control_characters(text) == []
    assert terminal_commands(text) == set()
