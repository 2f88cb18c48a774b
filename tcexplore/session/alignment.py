"""Alignment of two sequences as in a diff; fast for tens of thousands of items."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

Items = Sequence[Hashable]
Pair = tuple[int, int]

_FEW = 500
"""Maximum length to compare all items with each other, which takes quadratic time."""


def pairs(a: Items, b: Items) -> Iterator[Pair]:
    """Yield the indices of equal items on both sides, both ascending.

    Split long sequences at items that occur once on each side. Nearly every line of generated code does, since its
    temporaries are numbered.
    """
    if min(len(a), len(b)) <= _FEW:
        yield from _compared(a, b, thorough=True)
        return
    anchors = _anchors(a, b)
    if not anchors:
        yield from _compared(a, b, thorough=False)
        return
    i, j = 0, 0
    for x, y in (*anchors, (len(a), len(b))):
        yield from ((i + p, j + q) for p, q in pairs(a[i:x], b[j:y]))
        if x < len(a):
            yield x, y
        i, j = x + 1, y + 1


def _compared(a: Items, b: Items, *, thorough: bool) -> Iterator[Pair]:
    if not a or not b:
        return
    for i, j, size in difflib.SequenceMatcher(None, a, b, autojunk=not thorough).get_matching_blocks():
        yield from zip(range(i, i + size), range(j, j + size), strict=True)


def _anchors(a: Items, b: Items) -> list[Pair]:
    """Return the longest chain of items that occur once on each side, ascending on both."""
    once_a, once_b = ({item for item, n in Counter(items).items() if n == 1} for items in (a, b))
    place = {item: index for index, item in enumerate(b) if item in once_b}
    return _ascending([(index, place[item]) for index, item in enumerate(a) if item in once_a and item in place])


def _ascending(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the longest subsequence that also ascends in the second number."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int | None] = []
    for index, (_, second) in enumerate(pairs):
        at = bisect_left(ends, second)
        before.append(last[at - 1] if at else None)
        ends[at : at + 1] = [second]
        last[at : at + 1] = [index]
    chain: list[Pair] = []
    step = last[-1] if last else None
    while step is not None:
        chain.append(pairs[step])
        step = before[step]
    return chain[::-1]
