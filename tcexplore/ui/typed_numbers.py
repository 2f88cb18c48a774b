"""Numbers that the user types."""

from __future__ import annotations


def parse_calls(text: str) -> int | None:
    """Return the number in `1,000` or `1000`, None for an empty text. Raises `ValueError` with a message."""
    plain = text.replace(",", "").replace("_", "").replace(" ", "")
    if plain and (not plain.isdecimal() or not int(plain)):
        raise ValueError("A number of calls is a whole number above 0, such as 100,000.")
    return int(plain) if plain else None
