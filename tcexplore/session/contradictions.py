"""Costs of breaks that contradict the timing; a run leaves them out, with the reason."""

from __future__ import annotations

from typing import NamedTuple

from tcexplore import events as ev

BREAK_COSTS = "graph break costs"
SYMBOL = "torch.profiler:profile"


class Measured(NamedTuple):
    """The measured figures of a run; the names are those of the fields of `Snapshot`."""

    timing: ev.TimingEstimate | None
    break_costs: ev.BreakCosts | None
    missing_facts: tuple[ev.FactMissing, ...]


def add_measured(measured: Measured, event: ev.TimingEstimate | ev.BreakCosts) -> Measured:
    """Return the figures with a new one, without those that contradict the timing."""
    if isinstance(event, ev.TimingEstimate):
        measured = measured._replace(timing=event)
    else:
        missing = tuple(fact for fact in measured.missing_facts if fact.fact != BREAK_COSTS)
        measured = measured._replace(break_costs=event, missing_facts=missing)
    timing, costs = measured.timing, measured.break_costs
    if timing is None or timing.verdict == "measuring" or costs is None or costs.agrees_with(timing):
        return measured
    unit = "a call" if timing.calls == 1 else f"{timing.calls} calls"
    took = f"took {costs.total_us:,.1f} µs, but {timing.unit_us:,.1f} µs when timed"
    reason = f"left out: {unit} measured with its breaks {took}"
    contradiction = ev.FactMissing(fact=BREAK_COSTS, symbol=SYMBOL, reason=reason)
    return measured._replace(break_costs=None, missing_facts=(*measured.missing_facts, contradiction))
