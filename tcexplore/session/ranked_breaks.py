"""Graph breaks of a run by their cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tcexplore import events as ev

if TYPE_CHECKING:
    from tcexplore.session.snapshot import Snapshot


class RankedBreak(NamedTuple):
    """A break and its cost in one warm unit of calls; None if unknown."""

    graph_break: ev.GraphBreak
    cost_us: float | None = None
    share: float | None = None
    """Share of the unit's time."""
    gaps: int = 0
    """Number of times that a graph ended here."""
    ops: tuple[tuple[str, int, float], ...] = ()
    """Ops that run in between: (name, times, microseconds)."""
    whole_function: bool = False
    """Dynamo skipped the function: everything outside the graphs counts as the cost of this break."""


def rank_breaks(snapshot: Snapshot) -> tuple[RankedBreak, ...]:
    """Return every break, the most expensive first; those of unknown cost last, in the order of their appearance."""
    measured = snapshot.break_costs
    if measured is None:
        return tuple(map(RankedBreak, snapshot.breaks))
    costs = {(cost.location.file, cost.location.line): cost for cost in measured.costs}
    known = [_cost(broken, costs) for broken in snapshot.breaks]
    around = measured.elsewhere_us + measured.around_us
    ranked = []
    for broken, cost in zip(snapshot.breaks, known, strict=True):
        if cost is not None:
            share = _share(cost.us, measured.total_us)
            ranked.append(RankedBreak(broken, cost.us, share, cost.gaps, cost.ops))
        elif known.count(None) == 1 and around:
            ranked.append(RankedBreak(broken, around, _share(around, measured.total_us), whole_function=True))
        else:
            ranked.append(RankedBreak(broken))
    return tuple(sorted(ranked, key=lambda broken: -(broken.cost_us or 0.0)))


def _cost(broken: ev.GraphBreak, costs: dict[tuple[str, int], ev.BreakCost]) -> ev.BreakCost | None:
    return costs.get((broken.location.file, broken.location.line)) if broken.location else None


def _share(us: float, total: float) -> float | None:
    return us / total if total else None
