"""What a graph break costs, in words."""

from __future__ import annotations

from tcexplore.quantities import count, duration
from tcexplore.session.ranked_breaks import Costed
from tcexplore.session.snapshot import Snapshot


def format_cost(costed: Costed, snapshot: Snapshot) -> str:
    """`164 µs a call, 40 % of it`; empty where it is not known."""
    if costed.us is None or costed.share is None:
        return ""
    return f"{duration(costed.us / 1e6)} {_unit(snapshot)}, {_percent(costed.share)} of it"


def format_cost_briefly(costed: Costed) -> str:
    """`164 µs 40 %`; empty where it is not known."""
    if costed.us is None or costed.share is None:
        return ""
    return f"{duration(costed.us / 1e6)} {_percent(costed.share)}"


def explain_cost(costed: Costed) -> str:
    """What that time is; empty where it is not known."""
    if costed.us is None:
        return ""
    if costed.whole:
        return "all that runs outside the graphs, for the function runs as plain Python"
    times = "once" if costed.gaps == 1 else f"{costed.gaps} times"
    ops = sum(n for _, n, _ in costed.ops)
    meanwhile = f"; {count(ops, 'op')} run outside meanwhile: {_names(costed)}" if ops else "; no op runs meanwhile"
    return f"from where its graph ends to where the next one begins, {times}{meanwhile}"


def format_shared_cost(snapshot: Snapshot) -> str:
    """What the breaks cost together beside what each of them does; empty where there is nothing."""
    costs = snapshot.break_costs
    if costs is None or not costs.elsewhere_us or not costs.costs:
        return ""
    spent = duration(costs.elsewhere_us / 1e6)
    return f"and {spent} {_unit(snapshot)} between functions that they keep from being one graph"


def _percent(share: float) -> str:
    return "<1 %" if share < 0.01 else f"{share * 100:.0f} %"


def _unit(snapshot: Snapshot) -> str:
    calls = len(snapshot.entry.calls) if snapshot.entry else 1
    return "a call" if calls <= 1 else f"in all {calls} calls"


def _names(costed: Costed) -> str:
    names = [name for name, _, _ in costed.ops]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
