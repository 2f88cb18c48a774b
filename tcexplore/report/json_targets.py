"""Code for a device, as JSON: stages and resources of kernels, what could not be lowered, what the program asked."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tcexplore import events as ev
from tcexplore.report.json_device import measured
from tcexplore.report.json_graphs import place
from tcexplore.session import Snapshot
from tcexplore.session.code import NATIVE
from tcexplore.session.kernel_facts import kernel_facts as known
from tcexplore.session.kernel_facts import kernel_loops

Fields = dict[str, Any]


def codes(snapshot: Snapshot) -> list[Snapshot]:
    """The run once for each device that it has code for, the one in view first."""
    return [snapshot, *(snapshot.with_target(code.target) for code in snapshot.other_codes if code.kernels)]


def machine(snapshot: Snapshot, kernel: ev.Kernel) -> Fields:
    """How far a kernel was brought; `stages` and `resources` are null where it was not assembled."""
    made, failed, point = known(snapshot.code, kernel)
    return {
        "target": kernel.target,
        "resources": _resources(made.resources) if made and made.resources else None,
        "loops": [_loop(loop) for loop in kernel_loops(snapshot.code, kernel)],
        "vectors": asdict(made.vectors) if made and made.vectors else None,
        "stages": {stage.name: _stage(stage) for stage in made.stages} if made else None,
        "assembled_config": made.config or None if made else None,
        "not_assembled": failed.reason if failed else None,
        "roofline_estimate": _roofline(point) if point else None,
        "measured": measured(snapshot, kernel, point),
    }


def _loop(loop: ev.LoopVectorized) -> Fields:
    return {
        "scheduler_nodes": list(loop.nodes),
        "form": loop.form,
        "isa": loop.isa or None,
        "vector_bits": loop.width or None,
        "lanes": loop.lanes or None,
        "why_scalar": loop.reason or None,
    }


def _stage(stage: ev.KernelStage) -> Fields:
    return {"text": stage.text, "lines": [list(pair) for pair in stage.lines]}


def _resources(taken: ev.KernelResources) -> Fields:
    return {
        "registers_per_thread": taken.registers,
        "spill_bytes_per_thread": taken.spills,
        "stack_bytes_per_thread": taken.stack,
        "shared_static_bytes": taken.shared_static,
        "shared_dynamic_bytes": taken.shared_dynamic,
        "num_warps": taken.num_warps,
        "num_stages": taken.num_stages,
        "threads": taken.threads,
        "occupancy": taken.occupancy,
        "blocks": taken.blocks,
        "limited_by": taken.limited_by or None,
        "mix": dict(taken.mix),
        "warnings": list(taken.warnings),
    }


def _roofline(point: ev.RooflinePoint) -> Fields:
    return {
        "bytes": point.bytes,
        "flops": point.flops,
        "flop_per_byte": point.intensity,
        "bound": point.bound,
        "implied_us": point.implied_us,
        "memory_peak_bytes_per_s": point.memory_peak,
        "compute_peak_flop_per_s": point.peak,
        "precision": point.precision,
    }


def lowered(snapshot: Snapshot) -> list[Fields]:
    """Each graph that was lowered for a device that is not in the machine, and each that could not be."""
    found: list[Fields] = []
    for code in codes(snapshot):
        found += [
            {"target": e.target, "graph": e.graph, "kernels": e.kernels, "seconds": e.seconds, "notes": list(e.notes)}
            for e in code.code.lowered
        ]
    return found


def not_lowered(snapshot: Snapshot) -> list[Fields]:
    """Each graph that could not be lowered, with the op where it stopped."""
    every = [*snapshot.code.not_lowered, *(e for code in snapshot.other_codes for e in code.not_lowered)]
    return [{"target": e.target, "graph": e.graph, "op": e.op or None, "reason": e.reason} for e in every]


def asked(snapshot: Snapshot) -> list[Fields]:
    """Where the program looked at the kind of its device, which is not the target's."""
    return [{"graph": e.graph, "attribute": e.attribute, **place(e.location)} for e in snapshot.device_queries]


def why_null(snapshot: Snapshot) -> list[Fields]:
    """Why kernels have no stages and no resources."""
    if not any(kernel.language == "cpp" for kernel in snapshot.code_for(NATIVE).kernels) or snapshot.config.assembly:
        return []
    reason = "C++ kernels are brought to assembly with --assembly; they have no resources of a GPU"
    return [{"fact": fact, "symbol": None, "reason": reason} for fact in ("resources", "stages")]
