"""Costs of breaks that contradict the timing are marked, with the reason."""

from __future__ import annotations

from dataclasses import replace

from tcexplore import events as ev


def mark_contradiction(costs: ev.BreakCosts | None, timing: ev.TimingEstimate | None) -> ev.BreakCosts | None:
    """Return the costs with why they and the timing cannot be true of the same call, if so.

    They stay: breaks whose costs vanish would change their order.
    """
    if costs is None or timing is None or timing.verdict == "measuring":
        return costs
    unit = "a call" if timing.calls == 1 else f"{timing.calls} calls"
    took = f"took {costs.total_us:,.1f} µs, but {timing.unit_us:,.1f} µs when timed"
    return replace(costs, contradicted="" if costs.agrees_with(timing) else f"{unit} measured with its breaks {took}")
