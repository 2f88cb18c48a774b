"""Numbers as the user writes them: sizes of a dimension, calls."""

from __future__ import annotations

import re

from tcexplore.events import EntryFound

_FIRST_SIZE = re.compile(r"\[(\d+)")

AROUND = (1 / 16, 1 / 4, 1, 4)
"""Times the size that the file has."""


def parse_dimension(text: str) -> int:
    """`0`. Raises `ValueError` with a sentence."""
    if not text.strip().isdecimal():
        raise ValueError("A dimension is a number from 0 on, as torch counts them.")
    return int(text)


def parse_sizes(text: str) -> tuple[int, ...]:
    """`1, 8, 64`, each once. Raises `ValueError` with a sentence."""
    parts = [part.strip() for part in text.replace(" ", ",").split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError("Sizes are whole numbers above 0, parted by commas: 1, 8, 64.")
    return tuple(dict.fromkeys(int(part) for part in parts))


def parse_calls(text: str) -> int | None:
    """`1,000` or `1000`, None for nothing. Raises `ValueError` with a sentence."""
    plain = text.replace(",", "").replace("_", "").replace(" ", "")
    if plain and (not plain.isdecimal() or not int(plain)):
        raise ValueError("A number of calls is a whole number above 0, such as 100,000.")
    return int(plain) if plain else None


def suggest_sizes(entry: EntryFound | None) -> tuple[int, ...]:
    """Some sizes around the first one of the file's first tensor, and 1, which torch compiles apart."""
    described = " ".join(entry.calls[0]) if entry is not None and entry.calls else ""
    found = _FIRST_SIZE.search(described)
    size = int(found[1]) if found else 16
    return tuple(sorted({1, *(int(size * factor) for factor in AROUND if size * factor >= 1)}))
