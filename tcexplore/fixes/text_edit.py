"""Changes to a text: ranges of characters that get another text, all else stays as it is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import NamedTuple

_BREAK = re.compile(r"\r\n|\r|\n")


class Edit(NamedTuple):
    """`text` takes the place of the characters from `start` up to `end`."""

    start: int
    end: int
    text: str


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text with every edit made. Raises `ValueError` where two of them overlap."""
    pieces, at = [], 0
    for edit in sorted(edits):
        if edit.start < at:
            raise ValueError("two edits of the same characters")
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join((*pieces, text[at:]))


def lines_of(text: str) -> list[str]:
    """The lines with their ends, as Python counts them: at `\\n`, `\\r\\n` and `\\r`, and nowhere else."""
    ends = [found.end() for found in _BREAK.finditer(text)]
    pieces = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    return pieces if pieces[-1] else pieces[:-1]


def newline(text: str) -> str:
    """How the text ends its first line."""
    found = _BREAK.search(text)
    return found.group() if found else "\n"


def line_map(text: str, edits: Iterable[Edit]) -> dict[int, int]:
    """Which line of the text a line of the changed text was, for every line that no edit touches. Lines from 1."""
    whole = {range_: number for number, range_ in enumerate(_ranges(text), 1)}
    kept, found = _kept(text, sorted(edits)), {}
    for number, (start, end) in enumerate(_ranges(applied(text, edits)), 1):
        for shift, first, last in kept:
            if first <= start and end <= last and (start - shift, end - shift) in whole:
                found[number] = whole[start - shift, end - shift]
    return found


def _kept(text: str, edits: list[Edit]) -> list[tuple[int, int, int]]:
    """The stretches that stay, as they stand in the changed text: by how much they moved, first and last character."""
    shift, at, found = 0, 0, []
    for start, end, piece in (*edits, Edit(len(text), len(text), "")):
        found.append((shift, at + shift, start + shift))
        shift, at = shift + len(piece) - (end - start), end
    return found


def _ranges(text: str) -> list[tuple[int, int]]:
    """Where each line begins and where it ends, without its line end."""
    at, found = 0, []
    for line in lines_of(text):
        found.append((at, at + len(line.rstrip("\r\n"))))
        at += len(line)
    return found


def diff(before: str, after: str, name: str) -> tuple[str, ...]:
    """A unified diff, without line ends."""
    old, new = ([line.rstrip("\r\n") for line in lines_of(text)] for text in (before, after))
    return tuple(difflib.unified_diff(old, new, name, name, lineterm="", n=2))
