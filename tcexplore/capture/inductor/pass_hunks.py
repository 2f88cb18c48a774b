"""Where two texts of one graph differ."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from tcexplore.events import Hunk

AROUND = 2
"""Unchanged lines kept above and below a change."""


def hunks(before: Sequence[str], after: Sequence[str]) -> tuple[Hunk, ...]:
    """The differences, in order; passes change little of a graph, so what is equal at both ends is cut off first."""
    if before == after:
        return ()
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    middle = before[start : len(before) - end], after[start : len(after) - end]
    matcher = difflib.SequenceMatcher(None, *middle, autojunk=False)
    return tuple(
        _hunk(before, after, start + a, start + b, start + c, start + d)
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    )


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _hunk(before: Sequence[str], after: Sequence[str], a: int, b: int, c: int, d: int) -> Hunk:
    return Hunk(
        at=a,
        removed=tuple(before[a:b]),
        added=tuple(after[c:d]),
        above=tuple(before[max(a - AROUND, 0) : a]),
        below=tuple(before[b : b + AROUND]),
    )
