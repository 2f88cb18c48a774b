"""Edits of a text: ranges of characters with their replacements."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import NamedTuple

_BREAK = re.compile(r"\r\n|\r|\n")


class Edit(NamedTuple):
    """Replacement of the characters from `start` up to `end`."""

    start: int
    end: int
    text: str


def applied(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits. Raises `ValueError` if two of them overlap."""
    pieces, at = [], 0
    for edit in sorted(edits):
        if edit.start < at:
            raise ValueError("two edits of the same characters")
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join((*pieces, text[at:]))


def lines_of(text: str) -> list[str]:
    """Split into lines with their endings, at `\\n`, `\\r\\n` and `\\r` like Python."""
    ends = [match.end() for match in _BREAK.finditer(text)]
    pieces = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    return pieces if pieces[-1] else pieces[:-1]


def newline(text: str) -> str:
    """Return the line ending of the first line."""
    match = _BREAK.search(text)
    return match.group() if match else "\n"


def line_map(text: str, edits: Iterable[Edit]) -> dict[int, int]:
    """Map lines of the changed text that no edit touches to their numbers in the original, both from 1."""
    whole = {range_: number for number, range_ in enumerate(_ranges(text), 1)}
    unchanged, lines = _unchanged(text, sorted(edits)), {}
    for number, (start, end) in enumerate(_ranges(applied(text, edits)), 1):
        for shift, first, last in unchanged:
            if first <= start and end <= last and (start - shift, end - shift) in whole:
                lines[number] = whole[start - shift, end - shift]
    return lines


def _unchanged(text: str, edits: list[Edit]) -> list[tuple[int, int, int]]:
    """Return the unchanged ranges of the changed text as offset from the original, start and end."""
    shift, at, ranges = 0, 0, []
    for start, end, piece in (*edits, Edit(len(text), len(text), "")):
        ranges.append((shift, at + shift, start + shift))
        shift, at = shift + len(piece) - (end - start), end
    return ranges


def _ranges(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each line, without its line ending."""
    at, ranges = 0, []
    for line in lines_of(text):
        ranges.append((at, at + len(line.rstrip("\r\n"))))
        at += len(line)
    return ranges


def diff(before: str, after: str, name: str) -> tuple[str, ...]:
    """Return a unified diff without line endings."""
    old, new = ([line.rstrip("\r\n") for line in lines_of(text)] for text in (before, after))
    return tuple(difflib.unified_diff(old, new, name, name, lineterm="", n=2))
