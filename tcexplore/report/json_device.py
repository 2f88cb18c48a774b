"""JSON of the GPU: the device, measured kernels, CUDA graphs, autotuning."""

from __future__ import annotations

from typing import Any

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.kernel_facts import achieved

Fields = dict[str, Any]


def device(device: ev.DeviceFacts | None) -> Fields | None:
    """Return the GPU as its driver describes it; None on a CPU."""
    if device is None:
        return None
    return {
        "name": device.name,
        "capability": device.capability,
        "driver": device.driver or None,
        "sm_clock_mhz": device.sm_clock,
        "sm_clock_max_mhz": device.sm_clock_max,
        "memory_clock_mhz": device.memory_clock,
        "memory_clock_max_mhz": device.memory_clock_max,
        "throttle_reasons": list(device.slowed_by),
        "temperature_c": device.temperature,
        "power_w": device.power,
        "power_limit_w": device.power_limit,
        "memory_total_bytes": device.memory_total,
        "memory_free_bytes": device.memory_free,
        "memory_used_bytes": device.memory_used,
        "memory_reserved_bytes": device.memory_reserved,
    }


def measured_kernel(snapshot: Snapshot, kernel: ev.Kernel, point: ev.RooflinePoint | None) -> Fields | None:
    """Return the measured time of a kernel in one call; None if it was not measured."""
    rates = achieved(snapshot, kernel, point)
    if rates is None:
        return None
    return {
        "us": rates.measured.us,
        "launches": rates.measured.launches,
        "device": rates.measured.device,
        "functions": list(rates.measured.functions),
        "replayed": rates.measured.replayed,
        "bytes_per_s": rates.memory,
        "flop_per_s": rates.compute,
        "memory_peak_share": rates.memory_share,
        "compute_peak_share": rates.compute_share,
        "bound_share": rates.bound_share,
    }


def cuda_graphs(snapshot: Snapshot) -> Fields:
    """Return recorded and skipped CUDA graphs, and the launches that they save."""
    profile = snapshot.call_profile
    return {
        "recorded": [
            {
                "graph": graph.graph,
                "phase": graph.phase,
                "number": graph.number,
                "part": graph.part,
                "parent": graph.parent,
                "inputs_copied": graph.inputs_copied,
                "inputs_copied_bytes": graph.inputs_copied_bytes,
                "peak_bytes": graph.peak_bytes,
            }
            for graph in snapshot.cuda_graphs
        ],
        "skipped": [
            {
                "graph": skipped.graph,
                "phase": skipped.phase or None,
                "reason": skipped.reason,
                "scheduler_nodes": list(skipped.nodes),
            }
            for skipped in snapshot.cuda_graphs_skipped
        ],
        "replays_per_call": profile.replays if profile else None,
        "launches_saved_per_call": profile.replayed_tasks - profile.replays if profile else None,
    }


def autotuned(tuned: ev.Autotuned) -> Fields:
    """Return what torch measured before it chose."""
    return {
        "graph": tuned.graph,
        "phase": tuned.phase,
        "method": tuned.method,
        "kernel": tuned.kernel or None,
        "op": tuned.op or None,
        "node": tuned.node or None,
        "input_sizes": list(tuned.input_sizes),
        "seconds": tuned.seconds,
        "choices": [{"name": c.name, "kind": c.kind, "us": c.us, "chosen": c.chosen} for c in tuned.choices],
    }
