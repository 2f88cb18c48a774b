"""The cost of guards in one run, and the guard filters of torch that may reduce it."""

from __future__ import annotations

from typing import NamedTuple

from tcexplore.events.config import SKIP_GUARD_EVAL
from tcexplore.session.economics import DECIDED
from tcexplore.session.snapshot import Snapshot

VISIBLE_GUARD_SHARE = 0.05
"""Share of a compiled call that guards must take to be worth a filter."""

GUARD_FILTERS = ("skip_guard_on_inbuilt_nn_modules_unsafe", "skip_guard_on_all_nn_modules_unsafe", SKIP_GUARD_EVAL)
"""Filters to try, the safest first."""


class GuardCost(NamedTuple):
    """Time of the guards of one compiled call."""

    us: float
    share: float
    """Share of the call."""
    cold: bool
    """Whether this is torch's own time of one check with cold caches after the compile; warm checks are faster."""


def guard_cost(run: Snapshot) -> GuardCost | None:
    """Return the time of guards in warm calls, or else of torch's cold check; None if neither is known."""
    if (lines := run.lines_timed) is not None and lines.compiled_us:
        us = dict(lines.compiled_rest).get("guards", 0.0)
        return GuardCost(us, us / lines.compiled_us, cold=False)
    spent, timing = _cold_us(run), run.timing
    if timing is None or timing.verdict not in DECIDED or not timing.compiled_us or not spent:
        return None
    return GuardCost(spent, spent / timing.compiled_us, cold=True)


def _cold_us(run: Snapshot) -> float:
    """Return the time to check the guards of all frames once, each frame with its slowest entry."""
    slowest: dict[str, float] = {}
    for installed in run.guards:
        frame = installed.graph.partition("/")[0]
        slowest[frame] = max(slowest.get(frame, 0.0), installed.latency_us or 0.0)
    return sum(slowest.values())


def needs_guard_filter(run: Snapshot) -> bool:
    """Return whether the guards of a run take a visible share of a call."""
    cost = guard_cost(run)
    return cost is not None and cost.share >= VISIBLE_GUARD_SHARE
