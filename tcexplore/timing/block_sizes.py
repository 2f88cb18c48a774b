"""Sizes of the timed blocks of both sides: as nearly equal in time as whole units allow."""

from __future__ import annotations

import math
from typing import NamedTuple

MAX_STRETCH = 3
"""A block may be this many times the target length if that makes both sides more equal."""

TOLERANCE = 0.02
"""Blocks whose lengths differ by less count as equal."""

WARM_UP_NS = 5_000_000
"""Units longer than this need no untimed unit before them: a cold start matters little."""

SLOW_NS = 100_000_000
"""In a block this long, interference averages out, so a second unit is unnecessary."""


class BlockSize(NamedTuple):
    """The size of one side's block."""

    units: int
    """Timed units."""
    warm: int
    """Untimed units before them."""


def block_sizes(eager_ns: float, compiled_ns: float, target_ns: float) -> tuple[BlockSize, BlockSize]:
    """Return block sizes for units of these durations; a block takes about `target_ns`, or one unit if that is longer.

    Interference (a cold start, a lost time slice) adds the same share to both sides only if their blocks and warm-ups
    take equally long: both sides warm up for the duration of the longer unit.
    """
    eager_ns, compiled_ns = max(eager_ns, 1.0), max(compiled_ns, 1.0)
    longer, shorter = max(eager_ns, compiled_ns), min(eager_ns, compiled_ns)
    block_ns = longer * _units_of_longer(longer, shorter, target_ns)
    warm_up_ns = longer if longer <= WARM_UP_NS else 0.0
    eager, compiled = (
        BlockSize(_nearest(block_ns, unit_ns), round(warm_up_ns / unit_ns)) for unit_ns in (eager_ns, compiled_ns)
    )
    return eager, compiled


def _units_of_longer(longer: float, shorter: float, target_ns: float) -> int:
    """Return the smallest count that whole units of the shorter side match within `TOLERANCE`, else the best match."""
    smallest = max(1, round(target_ns / longer))
    candidates = range(smallest, max(smallest, int(MAX_STRETCH * target_ns / longer)) + 1)
    return next(
        (units for units in candidates if _mismatch(units * longer, shorter) <= TOLERANCE),
        min(candidates, key=lambda units: _mismatch(units * longer, shorter)),
    )


def _mismatch(block_ns: float, unit_ns: float) -> float:
    return abs(_nearest(block_ns, unit_ns) * unit_ns / block_ns - 1)


def _nearest(block_ns: float, unit_ns: float) -> int:
    """Return the number of units closest to a block; for a slow block, the number that fits into it."""
    fit = math.floor if block_ns > SLOW_NS else round
    return max(1, fit(block_ns / unit_ns))
