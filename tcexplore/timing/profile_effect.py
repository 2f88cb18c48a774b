"""What profiles changed for the timing: the ratio of both sides right before them and right after them.

A profiler that stays attached to the driver makes each launch slower, and more so for the side with more launches. Load
and frequency of the processor change the cost of a launch as much from one second to the next, so the ratio of
neighboring blocks is compared, in which they cancel, not the cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tcexplore.events.timing_events import ProfileEffect
from tcexplore.timing.blocks import BlockTimer, Clock, SystemClock
from tcexplore.timing.samples import mad, median
from tcexplore.timing.timed_machine import make_synchronizer
from tcexplore.timing.timing_verdict import FLOOR_ERRORS, MEDIAN_ERROR_FACTOR, MIN_DIFFERENCE
from tcexplore.timing.workload import Workload

PAIRS_S, MIN_PAIRS, MAX_PAIRS = 0.5, 8, 60
"""Seconds of pairs, and bounds on their number."""

BLOCK_NS = 4_000_000


def measure_ratios(workload: Workload, clock: Clock | None = None) -> list[float]:
    """Return the ratio eager over compiled of a few pairs of blocks, in alternating order."""
    clock = clock or SystemClock()
    timer = BlockTimer(clock, make_synchronizer(workload.device), workload.reset, BLOCK_NS, workload.context)
    sides = (workload.eager, workload.compiled)
    units = [timer.units_per_block(timer.time_block(side, 1, warm=1).unit_ns) for side in sides]
    ratios: list[float] = []
    ends = clock.now_ns() + round(PAIRS_S * 1e9)
    while len(ratios) < MIN_PAIRS or (clock.now_ns() < ends and len(ratios) < MAX_PAIRS):
        order = (0, 1) if len(ratios) % 2 else (1, 0)
        times = {side: timer.time_block(sides[side], units[side], warm=1).unit_ns for side in order}
        ratios.append(times[0] / times[1])
    return ratios


def compare_ratios(before: Sequence[float], after: Sequence[float]) -> ProfileEffect:
    """Compare the ratios of pairs before and after profiles."""
    logs = [[math.log(ratio) for ratio in ratios] for ratios in (before, after)]
    error = math.hypot(*(MEDIAN_ERROR_FACTOR * mad(values) / math.sqrt(len(values)) for values in logs))
    noise = math.expm1(FLOOR_ERRORS * error)
    change = median(logs[1]) - median(logs[0])
    return ProfileEffect(
        ratio_before=math.exp(median(logs[0])),
        ratio_after=math.exp(median(logs[1])),
        noise=noise,
        changed=math.expm1(abs(change)) > max(noise, MIN_DIFFERENCE),
    )
