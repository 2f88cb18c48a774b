"""How far each value's line is drawn in the gutter of a graph, when there is room for only so many lines."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def uses(inputs: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each row the later rows that read it, in order; `inputs` has the rows that each row reads."""
    found: list[list[int]] = [[] for _ in inputs]
    for row, read in enumerate(inputs):
        for producer in dict.fromkeys(read):
            if producer < row:
                found[producer].append(row)
    return found


def extents(used: Sequence[Sequence[int]], room: int) -> list[int]:
    """The row that each row's line reaches down to (itself: it has none), so that no row has over `room` of them.

    Where there are too many, the one that goes on furthest is cut back to its last use so far.
    """
    ends = [rows[-1] if rows else row for row, rows in enumerate(used)]
    active: list[tuple[int, int]] = []
    passing: set[int] = set()
    leaving: dict[int, list[int]] = {}
    for row, end in enumerate(ends):
        passing.difference_update(leaving.pop(row, ()))
        if end > row:
            heapq.heappush(active, (-end, row))
            passing.add(row)
            leaving.setdefault(end, []).append(row)
        while len(passing) > room:
            _, longest = heapq.heappop(active)
            if longest in passing:
                passing.discard(longest)
                ends[longest] = max((use for use in used[longest] if use <= row), default=longest)
    return ends
