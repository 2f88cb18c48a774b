"""Graph breaks of a run by their cost, and functions that are not compiled at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from tcexplore import events as ev
from tcexplore.session.call_account import profiled_eager_ops

if TYPE_CHECKING:
    from tcexplore.session.snapshot import Snapshot

CostBasis = Literal["verified fix", "gap, at least"]
"""`verified fix`: the call now minus the call with the fix. `gap, at least`: the time from the end of a graph to the
start of the next, without the ops in between; what fusion across the break would save is not in it."""


VISIBLE_US = 0.005
"""Microseconds that are not shown as 0."""


class RankedBreak(NamedTuple):
    """A break and its cost in one warm unit of calls; None if unknown."""

    graph_break: ev.GraphBreak
    us: float | None = None
    low_us: float | None = None
    """Lower end of the interval; for a gap the cost itself."""
    high_us: float | None = None
    """Upper end of the interval; None for a gap."""
    basis: CostBasis | None = None
    share: float | None = None
    """Share of the unit's time."""
    gap_us: float | None = None
    """The time outside the graphs, with the ops, which a graph would have to run too."""
    gaps: int = 0
    """Number of times that a graph ended here."""
    ops: tuple[tuple[str, int, float], ...] = ()
    """Ops that run in between: (name, times, microseconds)."""
    whole_function: bool = False
    """Dynamo skipped the function: everything outside the graphs counts as the cost of this break."""
    contradicted: str = ""
    """Why the cost contradicts the timing; empty if it does not."""
    gain_of_fix: tuple[float, float] | None = None
    """Interval of the gain of the fix in microseconds, if it may also be a loss: the cost is that of the gap."""

    @property
    def is_too_short(self) -> bool:
        """Whether the cost, if it is known, would be shown as 0."""
        return self.us is not None and self.us < VISIBLE_US

    @property
    def is_undecided(self) -> bool:
        """Whether the fix was timed, and may make the call faster or slower."""
        return self.low_us is not None and self.high_us is not None and self.low_us < 0 < self.high_us


def rank_breaks(snapshot: Snapshot) -> tuple[RankedBreak, ...]:
    """Return every break, the one with the longest gap first; those of unknown cost last, in order of appearance.

    The first measurement of a run decides the order; later ones, and the gains of fixes, only refine the costs.
    """
    latest, first = snapshot.break_costs, snapshot.first_break_costs or snapshot.break_costs
    keys = {id(each.graph_break): (-(each.us or 0.0), -(each.gap_us or 0.0)) for each in _gaps(snapshot, first)}
    ranked = [_with_gain(each, snapshot.fix_of(each.graph_break)) for each in _gaps(snapshot, latest)]
    return tuple(sorted(ranked, key=lambda each: keys[id(each.graph_break)]))


def _gaps(snapshot: Snapshot, measured: ev.BreakCosts | None) -> list[RankedBreak]:
    """Return the breaks in their order of appearance, with the time outside the graphs."""
    if measured is None:
        return list(map(RankedBreak, snapshot.breaks))
    costs = {(cost.location.file, cost.location.line): cost for cost in measured.costs}
    known = [_cost(graph_break, costs) for graph_break in snapshot.breaks]
    around = measured.elsewhere_us + measured.around_us
    ranked = []
    for graph_break, cost in zip(snapshot.breaks, known, strict=True):
        if cost is not None:
            ranked.append(_gap(graph_break, cost.us, cost.ops, measured)._replace(gaps=cost.gaps))
        elif known.count(None) == 1 and around:
            ops = profiled_eager_ops(snapshot.call_profile)
            ranked.append(_gap(graph_break, around, ops, measured)._replace(whole_function=True, ops=()))
        else:
            ranked.append(RankedBreak(graph_break))
    return ranked


def _gap(
    graph_break: ev.GraphBreak, us: float, ops: tuple[tuple[str, int, float], ...], measured: ev.BreakCosts
) -> RankedBreak:
    at_least = max(0.0, us - sum(op_us for _, _, op_us in ops))
    share = at_least / measured.total_us if measured.total_us else None
    return RankedBreak(
        graph_break,
        at_least,
        at_least,
        None,
        "gap, at least",
        share,
        gap_us=us,
        ops=ops,
        contradicted=measured.contradicted,
    )


def _with_gain(ranked: RankedBreak, fix: ev.BreakFix | None) -> RankedBreak:
    """Return a break with the gain of its fix as its cost, once that is timed."""
    gain = fix.gain if fix is not None and fix.state == "verified" else None
    if gain is None:
        return ranked
    if gain.low_us < 0 < gain.high_us and ranked.us is not None and not ranked.contradicted:
        return ranked._replace(gain_of_fix=(gain.low_us, gain.high_us))
    share = gain.us / gain.call_us if gain.call_us else None
    return ranked._replace(
        us=gain.us, low_us=gain.low_us, high_us=gain.high_us, basis="verified fix", share=share, contradicted=""
    )


def _cost(graph_break: ev.GraphBreak, costs: dict[tuple[str, int], ev.BreakCost]) -> ev.BreakCost | None:
    return costs.get((graph_break.location.file, graph_break.location.line)) if graph_break.location else None


def uncompiled_functions(snapshot: Snapshot) -> tuple[ev.FrameSkipped, ...]:
    """Return the functions whose ops run eagerly since Dynamo skipped their whole frame, each once."""
    failed = {frame.graph for frame in snapshot.skipped_frames}
    compiled = {graph.frame for graph in snapshot.graphs if graph.graph not in failed}
    skipped = (frame for frame in snapshot.skipped_frames if frame.has_ops and frame.frame not in compiled)
    return tuple({frame.frame: frame for frame in skipped}.values())
