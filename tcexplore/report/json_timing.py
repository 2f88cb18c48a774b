"""JSON of measurements: timing, accuracy, memory, the profile of one call, compile time."""

from __future__ import annotations

import math
from typing import Any

from tcexplore import events as ev
from tcexplore.documents.timing.accuracy_rows import describe_accuracy
from tcexplore.documents.timing.device_rows import is_launch_bound
from tcexplore.documents.timing.recommendation import recommend
from tcexplore.session import Snapshot
from tcexplore.session.compile_time import CompileSpan, compile_time, files_compiled
from tcexplore.session.economics import Range, economics
from tcexplore.session.graph_stages import saved_for_backward

Fields = dict[str, Any]


def timing(snapshot: Snapshot, calls: int | None = None) -> Fields | None:
    """Return the estimate with all its samples, and the recommendation for `calls` calls (None: any number)."""
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
        "verdict": estimate.verdict,
        "pairs": estimate.pairs,
        "pairs_discarded": estimate.pairs_discarded,
        "control_pairs": estimate.control_pairs,
        "eager_outliers": estimate.eager_outliers,
        "compiled_outliers": estimate.compiled_outliers,
        "eager_halves_us": list(estimate.eager_halves_us),
        "compiled_halves_us": list(estimate.compiled_halves_us),
        "device_eager_us": estimate.device_eager_us,
        "device_compiled_us": estimate.device_compiled_us,
        "launch_bound": is_launch_bound(estimate),
        "first_call_s": costs.first_call_s,
        "compile_s": costs.compile_s,
        "compile_overhead_s": costs.cost_s,
        "saved_us_per_call": _range(costs.payback.saved_us) if costs.payback else None,
        "break_even_calls": costs.break_even_calls,
        "net_s": _range(costs.payback.net_seconds(calls)) if costs.payback and calls else None,
        "recommendation": recommend(snapshot, calls),
        "calls_per_unit": estimate.calls,
        "eager_block_units": estimate.block,
        "compiled_block_units": estimate.block_compiled,
        "train": estimate.train,
        "threads": estimate.threads,
        "device": estimate.device,
        "notes": list(estimate.notes),
        "samples": _samples(snapshot.pairs),
    }


def _range(figure: Range) -> Fields:
    return {"value": figure.value, "low": figure.low, "high": figure.high}


def _samples(pairs: tuple[ev.PairsMeasured, ...]) -> Fields:
    measured = [p for p in pairs if not p.control]
    control = [p for p in pairs if p.control]
    return {
        "eager_us": [us for p in measured for us in p.eager_us],
        "compiled_us": [us for p in measured for us in p.compiled_us],
        "control_a_us": [us for p in control for us in p.eager_us],
        "control_b_us": [us for p in control for us in p.compiled_us],
    }


def accuracy(accuracy: ev.Accuracy | None) -> Fields | None:
    """Return the comparison with eager and the figures of every value; None if nothing was compared."""
    if accuracy is None or (accuracy.verdict == "not judged" and not accuracy.calls):
        return None
    return {
        **_errors(accuracy),
        "worst_value": accuracy.worst,
        "values": [
            {"name": value.name, "dtype": value.dtype, "elements": value.elements, **_errors(value)}
            for value in accuracy.values
        ],
        "differences": list(accuracy.differences),
        "random": accuracy.random,
        "fallback_random": accuracy.fallback_random,
        "calls": accuracy.calls,
        "total_calls": accuracy.total_calls,
        "train": accuracy.train,
        "reason": accuracy.reason,
        "seconds": accuracy.seconds,
        "summary": describe_accuracy(accuracy),
    }


def _errors(compared: ev.Accuracy | ev.Deviation) -> Fields:
    return {
        "verdict": compared.verdict,
        "max_abs": _finite(compared.max_abs),
        "max_rel": _finite(compared.max_rel),
        "eager_vs_fp64": _finite(compared.eager_vs_fp64),
        "compiled_vs_fp64": _finite(compared.compiled_vs_fp64),
    }


def _finite(value: float | None) -> float | None:
    """Return None for a number that JSON does not have."""
    return value if value is not None and math.isfinite(value) else None


def memory(snapshot: Snapshot) -> Fields | None:
    """Return the memory of one call in bytes; None if it was not measured."""
    memory = snapshot.memory
    if memory is None:
        return None
    eager_saved = memory.saved_for_backward
    return {
        "device": memory.device,
        "method": memory.method,
        "weights_bytes": memory.weights,
        "inputs_bytes": memory.inputs,
        "eager_peak_bytes": memory.eager_peak,
        "compiled_peak_bytes": memory.compiled_peak,
        "compiling_adds_bytes": memory.compiling_adds,
        "compiling_method": memory.compiling_method,
        "eager_saved_for_backward_bytes": eager_saved,
        "compiled_saved_for_backward_bytes": saved_for_backward(snapshot) if eager_saved is not None else None,
        "notes": list(memory.notes),
    }


def call_profile(profile: ev.CallProfiled | None) -> Fields | None:
    """Return where the time of one call goes; None if no call was profiled."""
    if profile is None:
        return None
    return {
        "total_us": profile.total_us,
        "repeats": profile.repeats,
        "parts": [
            {"kind": p.kind, "name": p.name, "graph": p.graph.strip() or None, "count": p.count, "us": p.us}
            for p in profile.parts
        ],
        "device_busy_us": profile.device_busy_us,
        "launch_gaps_us": profile.launch_gaps_us,
        "device_tasks": profile.device_tasks,
        "launches": profile.launches,
    }


def compile_time_fields(snapshot: Snapshot) -> Fields:
    """Return the whole tree of compile spans."""
    time = compile_time(snapshot)
    kernels = sorted(snapshot.kernel_compiles, key=lambda kernel: -kernel.seconds)
    return {
        "seconds": time.seconds,
        "wall_s": time.wall_seconds,
        "graph_s": time.graph_seconds,
        "frame_s": time.frame_seconds,
        "coverage": time.coverage,
        "spans": [_span(root) for root in time.roots],
        "kernels": [{"graph": kernel.graph, "name": kernel.name, "seconds": kernel.seconds} for kernel in kernels],
        "file_compiles_s": list(files_compiled(time.roots)),
    }


def _span(span: CompileSpan) -> Fields:
    return {
        "name": span.name,
        "graph": span.graph,
        "seconds": span.seconds,
        "self_s": span.self_seconds,
        "count": span.count,
        "children": [_span(child) for child in span.children],
    }


def phase_time(phase: ev.PhaseTimed) -> Fields:
    """Return one span of compile time."""
    return {
        "name": phase.name,
        "seconds": phase.seconds,
        "graph": phase.graph,
        "depth": phase.depth,
        "at_s": phase.at,
    }


def call(call: ev.CallMade) -> Fields:
    """Return one call of the warm-up."""
    return {
        "index": call.index,
        "variant": call.variant,
        "seconds": call.seconds,
        "compiles": call.compiles,
        "graphs": list(call.graphs),
        "graph_s": call.graph_seconds,
        "frame_s": call.frame_seconds,
    }
