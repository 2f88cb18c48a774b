"""Estimates of a timing: faster, slower and equal, and the costs of a graph break."""

from __future__ import annotations

from dataclasses import replace

from tcexplore import events as ev

ESTIMATE = ev.TimingEstimate(
    eager_us=412.0, eager_spread_us=3.0, compiled_us=314.0, compiled_spread_us=2.0, speedup=1.31, low=1.28, high=1.34,
    noise_floor=0.01, pairs=40, verdict="faster", threads=2, device="cpu", control_pairs=8, pairs_taken=40,
    eager_halves_us=(412.0, 413.0), compiled_halves_us=(314.0, 313.0),
)  # fmt: skip
FASTER = replace(ESTIMATE, eager_us=400.0, compiled_us=200.0, speedup=2.0, low=1.6, high=2.5, verdict="faster")
SLOWER = replace(ESTIMATE, eager_us=400.0, compiled_us=500.0, speedup=0.8, low=0.78, high=0.82, verdict="slower")
EQUAL = replace(ESTIMATE, eager_us=400.0, compiled_us=399.0, speedup=1.0025, low=0.99, high=1.02)
TIMING = replace(ESTIMATE, run=1, compiled_us=1000.0)
"""That of the run whose breaks have these `costs`."""

LINE = ev.Location("/home/me/model.py", 3, "f")


def costs(total: float, at_break: float = 10.0) -> ev.BreakCosts:
    """Return the costs of one break in a profiled call of `total` microseconds."""
    cost = ev.BreakCost(location=LINE, us=at_break, gaps=1)
    return ev.BreakCosts(run=1, costs=(cost,), total_us=total, units=5)
