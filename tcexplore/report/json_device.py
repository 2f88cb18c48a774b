"""What the device in the machine said and did, as JSON."""

from __future__ import annotations

from typing import Any

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.achieved_rates import achieved

Fields = dict[str, Any]


def device(found: ev.DeviceFacts | None) -> Fields | None:
    """The GPU as its driver described it last; null on a CPU, a field where the driver does not tell."""
    if found is None:
        return None
    return {
        "name": found.name,
        "capability": found.capability,
        "driver": found.driver or None,
        "sm_clock_mhz": found.sm_clock,
        "sm_clock_max_mhz": found.sm_clock_max,
        "memory_clock_mhz": found.memory_clock,
        "memory_clock_max_mhz": found.memory_clock_max,
        "slowed_by": list(found.slowed_by),
        "temperature_c": found.temperature,
        "power_w": found.power,
        "power_limit_w": found.power_limit,
        "memory_total_bytes": found.memory_total,
        "memory_free_bytes": found.memory_free,
        "memory_used_bytes": found.memory_used,
        "memory_reserved_bytes": found.memory_reserved,
    }


def measured(snapshot: Snapshot, kernel: ev.Kernel, point: ev.RooflinePoint | None) -> Fields | None:
    """A kernel's own time inside one call; null where it was not measured."""
    found = achieved(snapshot, kernel, point)
    if found is None:
        return None
    return {
        "us": found.measured.us,
        "launches": found.measured.launches,
        "device": found.measured.device,
        "functions": list(found.measured.functions),
        "replayed": found.measured.replayed,
        "bytes_per_s": found.memory,
        "flop_per_s": found.compute,
        "share_of_memory_peak": found.memory_share,
        "share_of_compute_peak": found.compute_share,
        "share_of_bound": found.bound_share,
    }


def cuda_graphs(snapshot: Snapshot) -> Fields:
    """What was recorded, what was not and why, and the launches that one call is spared."""
    call = snapshot.call_profile
    return {
        "recorded": [_recorded(one) for one in snapshot.cuda_graphs],
        "skipped": [_skipped(one) for one in snapshot.cuda_graphs_skipped],
        "replays_per_call": call.replays if call else None,
        "launches_saved_per_call": call.replayed_tasks - call.replays if call else None,
    }


def _recorded(one: ev.CudaGraphRecorded) -> Fields:
    return {
        "graph": one.graph,
        "phase": one.phase,
        "number": one.number,
        "part": one.part,
        "parent": one.parent,
        "inputs_copied": one.inputs_copied,
        "inputs_copied_bytes": one.inputs_copied_bytes,
        "peak_bytes": one.peak_bytes,
    }


def _skipped(one: ev.CudaGraphSkipped) -> Fields:
    return {"graph": one.graph, "phase": one.phase or None, "reason": one.reason, "scheduler_nodes": list(one.nodes)}


def tuned(one: ev.Autotuned) -> Fields:
    """What torch measured before it chose."""
    return {
        "graph": one.graph,
        "phase": one.phase,
        "what": one.method,
        "kernel": one.kernel or None,
        "op": one.op or None,
        "node": one.node or None,
        "input_sizes": list(one.input_sizes),
        "seconds": one.seconds,
        "choices": [{"name": c.name, "kind": c.kind, "us": c.us, "taken": c.chosen} for c in one.choices],
    }
