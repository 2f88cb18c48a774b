"""Which items of two sequences are the same one, as a diff pairs lines; fast for tens of thousands of them."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

Items = Sequence[Hashable]
Pair = tuple[int, int]

_FEW = 500
"""Items up to which all are compared with all; beyond that the time would grow with their square."""


def pairs(a: Items, b: Items) -> Iterator[Pair]:
    """Indices of equal items on either side, both ascending.

    Long sequences are split at the items that occur once on each side, in the longest order that both have them in:
    nearly every line of generated code is one, for its temporaries are numbered.
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
    """The longest chain of items that occur once on each side, ascending on both."""
    once_a, once_b = ({item for item, n in Counter(items).items() if n == 1} for items in (a, b))
    place = {item: index for index, item in enumerate(b) if item in once_b}
    found = [(index, place[item]) for index, item in enumerate(a) if item in once_a and item in place]
    return _ascending(found)


def _ascending(found: Sequence[Pair]) -> list[Pair]:
    """The longest subsequence whose second numbers ascend, too."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int | None] = []
    for index, (_, second) in enumerate(found):
        at = bisect_left(ends, second)
        before.append(last[at - 1] if at else None)
        ends[at : at + 1] = [second]
        last[at : at + 1] = [index]
    chain: list[Pair] = []
    step = last[-1] if last else None
    while step is not None:
        chain.append(found[step])
        step = before[step]
    return chain[::-1]
