"""What was measured, as JSON."""

from __future__ import annotations

from typing import Any

from tcexplore import events as ev
from tcexplore.documents.timing.device_rows import is_launch_bound
from tcexplore.documents.timing.recommendation import recommend
from tcexplore.session import Snapshot
from tcexplore.session.economics import economics

Fields = dict[str, Any]


def timing(snapshot: Snapshot, calls: int | None = None) -> Fields | None:
    """The estimate with every sample it was drawn from, the recommendation for `calls` calls (null: for any number);
    null where nothing was timed."""
    estimate = snapshot.timing
    if estimate is None:
        return None
    costs = economics(snapshot)
    return {
        "eager_us": estimate.eager_us,
        "eager_spread_us": estimate.eager_spread_us,
        "compiled_us": estimate.compiled_us,
        "compiled_spread_us": estimate.compiled_spread_us,
        "speedup": estimate.speedup,
        "ci95": [estimate.low, estimate.high],
        "noise_floor": estimate.noise_floor,
        "pairs": estimate.pairs,
        "pairs_discarded": estimate.pairs_discarded,
        "control_pairs": estimate.control_pairs,
        "outliers": [estimate.eager_outliers, estimate.compiled_outliers],
        "halves_us": [list(estimate.eager_halves_us), list(estimate.compiled_halves_us)],
        "device_us": [estimate.device_eager_us, estimate.device_compiled_us],
        "verdict": estimate.verdict,
        "first_call_s": costs.first_call_s,
        "compile_s": costs.compile_s,
        "cost_s": costs.cost_s,
        "saved_us": list(costs.payback.saved_us) if costs.payback else None,
        "break_even_calls": costs.break_even_calls,
        "net_s": list(costs.payback.net_seconds(calls)) if costs.payback and calls else None,
        "recommendation": recommend(snapshot, calls),
        "calls": estimate.calls,
        "block": estimate.block,
        "block_compiled": estimate.block_compiled,
        "train": estimate.train,
        "threads": estimate.threads,
        "device": estimate.device,
        "device_eager_us": estimate.device_eager_us,
        "device_compiled_us": estimate.device_compiled_us,
        "launch_bound": is_launch_bound(estimate),
        "notes": list(estimate.notes),
        "samples": _samples(snapshot.pairs),
    }


def _samples(pairs: tuple[ev.PairsMeasured, ...]) -> Fields:
    measured = [p for p in pairs if not p.control]
    control = [p for p in pairs if p.control]
    return {
        "eager_us": [us for p in measured for us in p.eager_us],
        "compiled_us": [us for p in measured for us in p.compiled_us],
        "control_a_us": [us for p in control for us in p.eager_us],
        "control_b_us": [us for p in control for us in p.compiled_us],
    }


def one_call(found: ev.CallProfiled | None) -> Fields | None:
    """Where the time of one call goes; null where none was profiled."""
    if found is None:
        return None
    parts = [
        {"kind": p.kind, "name": p.name, "graph": p.graph.strip() or None, "count": p.count, "us": p.us}
        for p in found.parts
    ]
    return {
        "total_us": found.total_us,
        "times": found.repeats,
        "parts": parts,
        "device_busy_us": found.device_busy_us,
        "launch_gaps_us": found.launch_gaps_us,
        "device_works": found.device_tasks,
        "launches": found.launches,
    }


def phase(timed: ev.PhaseTimed) -> Fields:
    return {"name": timed.name, "seconds": timed.seconds, "graph": timed.graph, "depth": timed.depth}


def call(made: ev.CallMade) -> Fields:
    return {
        "index": made.index,
        "what": made.variant,
        "seconds": made.seconds,
        "compiles": made.compiles,
        "graphs": list(made.graphs),
    }
