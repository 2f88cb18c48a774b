"""Inputs as a user writes them on one line: `f32[64, 512], flag=True, [f32[4], 2]`."""

from __future__ import annotations

_OPENING, _CLOSING = "[({", "])}"


def parted(text: str) -> list[str]:
    """The arguments, or a container's items, of a line: parted at the commas that stand in no bracket."""
    items, depth, last = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in _OPENING) - (character in _CLOSING)
        if character == "," and depth == 0:
            items.append(text[last:at])
            last = at + 1
    return [item.strip() for item in (*items, text[last:]) if item.strip()]
