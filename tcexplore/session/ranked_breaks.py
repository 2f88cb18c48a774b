"""The breaks of a run by the time lost to them."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore import events as ev
from tcexplore.session.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class RankedBreak:
    """A break and what it costs in one warm unit of calls: microseconds, the `share` of the whole, how often a graph
    was left there, and what ran meanwhile; None where that is not known.

    `whole` tells that Dynamo gave the function up, so that all that runs outside the graphs is lost to this break.
    """

    graph_break: ev.GraphBreak
    cost_us: float | None = None
    share: float | None = None
    gaps: int = 0
    ops: tuple[tuple[str, int, float], ...] = ()
    whole_function: bool = False


def rank_breaks(snapshot: Snapshot) -> tuple[RankedBreak, ...]:
    """Every break, the most expensive first; those whose cost is not known last, in the order of their appearance."""
    measured = snapshot.break_costs
    if measured is None:
        return tuple(map(RankedBreak, snapshot.breaks))
    at = {(cost.location.file, cost.location.line): cost for cost in measured.costs}
    own = {index: _cost(found, at) for index, found in enumerate(snapshot.breaks)}
    unknown = [index for index, cost in own.items() if cost is None]
    around = measured.elsewhere_us + measured.around_us
    found = []
    for index, broken in enumerate(snapshot.breaks):
        cost = own[index]
        if cost is not None:
            found.append(RankedBreak(broken, cost.us, _share(cost.us, measured.total_us), cost.gaps, cost.ops))
        elif unknown == [index] and around:
            found.append(RankedBreak(broken, around, _share(around, measured.total_us), whole_function=True))
        else:
            found.append(RankedBreak(broken))
    return tuple(sorted(found, key=lambda costed: -(costed.cost_us or 0.0)))


def _cost(found: ev.GraphBreak, at: dict[tuple[str, int], ev.BreakCost]) -> ev.BreakCost | None:
    return at.get((found.location.file, found.location.line)) if found.location else None


def _share(us: float, total: float) -> float | None:
    return us / total if total else None
