"""How long the blocks of the two sides are: as nearly equal as whole units allow. Pure."""

from __future__ import annotations

import math
from typing import NamedTuple

MOST_TIMES = 3
"""A block is lengthened to this many times the one that is aimed at, where that makes both sides more alike."""

ALIKE = 0.02
"""Blocks whose lengths differ by less are alike: what disturbs one disturbs the other as much."""

WARMED_NS = 5_000_000
"""A unit longer than this is timed without one before it: what it starts with is soon made up for."""

SLOW_NS = 100_000_000
"""A block this long meets so many disturbances that they even out; another unit would only cost patience."""


class Size(NamedTuple):
    """One side's block: `units` that are timed, after `warm` units that are not."""

    units: int
    warm: int


def sizes(eager_ns: float, compiled_ns: float, aim_ns: float) -> tuple[Size, Size]:
    """The blocks of two sides whose units take so long, each about `aim_ns`, or one unit where that is longer.

    Whatever adds to a block (a cold start, a lost time slice) adds the same share to both sides only if their blocks
    last as long as each other, and if as much was run before them: both are warmed for as long as the longer unit.
    """
    eager_ns, compiled_ns = max(eager_ns, 1.0), max(compiled_ns, 1.0)
    longer, shorter = max(eager_ns, compiled_ns), min(eager_ns, compiled_ns)
    block_ns = longer * _units_of_longer(longer, shorter, aim_ns)
    warmed_ns = longer if longer <= WARMED_NS else 0.0
    eager, compiled = (
        Size(_nearest(block_ns, unit_ns), round(warmed_ns / unit_ns)) for unit_ns in (eager_ns, compiled_ns)
    )
    return eager, compiled


def _units_of_longer(longer: float, shorter: float, aim_ns: float) -> int:
    """The fewest that whole units of the shorter side come close to, else those that they come closest to."""
    fewest = max(1, round(aim_ns / longer))
    choice = range(fewest, max(fewest, int(MOST_TIMES * aim_ns / longer)) + 1)
    return next(
        (units for units in choice if _mismatch(units * longer, shorter) <= ALIKE),
        min(choice, key=lambda units: _mismatch(units * longer, shorter)),
    )


def _mismatch(block_ns: float, unit_ns: float) -> float:
    return abs(_nearest(block_ns, unit_ns) * unit_ns / block_ns - 1)


def _nearest(block_ns: float, unit_ns: float) -> int:
    """How many units come closest to a block; as many as fit in where it is a slow one."""
    fit = math.floor if block_ns > SLOW_NS else round
    return max(1, fit(block_ns / unit_ns))
