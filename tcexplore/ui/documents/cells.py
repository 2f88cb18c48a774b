"""How many cells of a terminal a text takes: wide letters take two, and what is set above others takes none."""

from __future__ import annotations

from itertools import accumulate
from unicodedata import category, east_asian_width

_NO_WIDTH = ("Mn", "Me", "Cf")


def cells(text: str) -> int:
    """The width of a text without control characters."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def cut(text: str, room: int) -> str:
    """As much of the text's beginning as fits into `room` cells."""
    if text.isascii():
        return text[: max(room, 0)]
    return text[: sum(width <= room for width in accumulate(map(_cells, text)))]


def _cells(letter: str) -> int:
    if category(letter) in _NO_WIDTH:
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1
