"""JSON of kernels: source, fusion, machine code, resources, roofline and memory traffic."""

from __future__ import annotations

from typing import Any

from tcexplore import events as ev
from tcexplore.documents.code.scheduler_reasons import explain_refusal
from tcexplore.documents.locations import display_path
from tcexplore.report.json_device import measured_kernel
from tcexplore.report.json_graphs import pairs, place
from tcexplore.session import Snapshot
from tcexplore.session.fused_kernels import FusedKernel, Fusions, NotFused
from tcexplore.session.kernel_facts import kernel_facts, kernel_loops
from tcexplore.session.line_traffic import line_traffic

Fields = dict[str, Any]


def kernel_fields(snapshot: Snapshot) -> Fields:
    """Return the keys of the report about generated code."""
    code = snapshot.code
    codes = [code, *snapshot.other_codes]
    return {
        "kernels": _kernels(snapshot),
        "lowered": [
            {"target": e.target, "graph": e.graph, "kernels": e.kernels, "seconds": e.seconds, "notes": list(e.notes)}
            for other in codes
            for e in other.lowered
        ],
        "not_lowered": [
            {"target": e.target, "graph": e.graph, "op": e.op or None, "reason": e.reason}
            for other in codes
            for e in other.not_lowered
        ],
        "device_queries": [
            {"graph": query.graph, "attribute": query.attribute, **place(query.location)}
            for query in snapshot.device_queries
        ],
        "wrappers": [_wrapper(wrapper) for wrapper in code.wrappers],
        "fusion_decisions": [_decision(decision) for decision in code.fusion],
        "unfused_neighbors": [_not_fused(pair) for pair in Fusions(snapshot).neighbors()],
        "schedules": [_schedule(schedule) for schedule in code.schedules],
        "line_traffic": _line_traffic(snapshot),
    }


def _kernels(snapshot: Snapshot) -> list[Fields]:
    """Return the kernels of every target with code, the target in view first."""
    kernels: list[Fields] = []
    others = (snapshot.with_target(code.target) for code in snapshot.other_codes if code.kernels)
    for run in (snapshot, *others):
        fusions = Fusions(run)
        kernels += [_kernel(run, kernel, fusions.fused(kernel)) for kernel in run.code.kernels]
    return kernels


def _kernel(snapshot: Snapshot, kernel: ev.Kernel, fused: FusedKernel) -> Fields:
    return {
        "name": kernel.name,
        "graph": kernel.graph,
        "phase": kernel.phase,
        "language": kernel.language,
        "scheduler_class": kernel.kind,
        "source": kernel.source,
        "ops": list(kernel.ops),
        "nodes": list(kernel.nodes),
        "source_lines": pairs(kernel.source_lines),
        "lines": [_line(line) for line in kernel.lines],
        "fusion_kinds": list(fused.kinds),
        "ops_inlined": fused.inlined,
        "fused_nodes": [list(group) for group in fused.groups],
        "scheduler_nodes": list(kernel.scheduler_nodes),
        "buffers": list(kernel.buffers),
        "bytes_read": kernel.bytes_read,
        "bytes_written": kernel.bytes_written,
        "bytes_saved": kernel.bytes_saved,
        "flops": kernel.flops,
        "dtypes": list(kernel.dtypes),
        "calls": [_call(call) for call in kernel.calls],
        **_machine_code(snapshot, kernel),
    }


def _call(call: ev.KernelCall) -> Fields:
    return {
        "order": call.order,
        "nodes": list(call.nodes),
        "source_lines": pairs(call.source_lines),
        "lines": [_line(line) for line in call.lines],
        "buffers": list(call.buffers),
        "bytes_read": call.bytes_read,
        "bytes_written": call.bytes_written,
    }


def _line(line: ev.KernelLine) -> Fields:
    return {"line": line.n, "nodes": list(line.nodes), "source_lines": pairs(line.source)}


def _machine_code(snapshot: Snapshot, kernel: ev.Kernel) -> Fields:
    facts = kernel_facts(snapshot.code, kernel)
    assembled = facts.assembled
    return {
        "target": kernel.target,
        "resources": _resources(assembled.resources) if assembled and assembled.resources else None,
        "loops": [_loop(loop) for loop in kernel_loops(snapshot.code, kernel)],
        "vectors": _vectors(assembled.vectors) if assembled and assembled.vectors else None,
        "stages": {stage.name: _stage(stage) for stage in assembled.stages} if assembled else None,
        "assembled_config": assembled.config or None if assembled else None,
        "not_assembled": facts.not_assembled.reason if facts.not_assembled else None,
        "roofline": _roofline(facts.roofline) if facts.roofline else None,
        "measured": measured_kernel(snapshot, kernel, facts.roofline),
    }


def _resources(resources: ev.KernelResources) -> Fields:
    return {
        "registers_per_thread": resources.registers,
        "spill_bytes_per_thread": resources.spills,
        "stack_bytes_per_thread": resources.stack,
        "shared_static_bytes": resources.shared_static,
        "shared_dynamic_bytes": resources.shared_dynamic,
        "num_warps": resources.num_warps,
        "num_stages": resources.num_stages,
        "threads_per_block": resources.threads,
        "occupancy": resources.occupancy,
        "blocks_per_multiprocessor": resources.blocks,
        "limited_by": resources.limited_by or None,
        "instruction_mix": dict(resources.mix),
        "warnings": list(resources.warnings),
    }


def _loop(loop: ev.LoopVectorized) -> Fields:
    return {
        "scheduler_nodes": list(loop.nodes),
        "form": loop.form,
        "isa": loop.isa or None,
        "vector_bits": loop.width or None,
        "lanes": loop.lanes or None,
        "scalar_reason": loop.reason or None,
    }


def _vectors(vectors: ev.Vectors) -> Fields:
    return {
        "vectorized": vectors.vectorized,
        "width_bits": vectors.width,
        "packed_instructions": vectors.packed,
        "scalar_instructions": vectors.scalar,
        "called_functions": list(vectors.calls),
    }


def _stage(stage: ev.KernelStage) -> Fields:
    return {"text": stage.text, "lines": [list(pair) for pair in stage.lines]}


def _roofline(point: ev.RooflinePoint) -> Fields:
    return {
        "bytes": point.bytes,
        "flops": point.flops,
        "flop_per_byte": point.intensity,
        "bound": point.bound,
        "bound_us": point.implied_us,
        "memory_peak_bytes_per_s": point.memory_peak,
        "compute_peak_flop_per_s": point.peak,
        "precision": point.precision,
    }


def _wrapper(wrapper: ev.Wrapper) -> Fields:
    return {
        "graph": wrapper.graph,
        "phase": wrapper.phase,
        "source": wrapper.source,
        "reused": [list(pair) for pair in wrapper.reused],
    }


def _decision(decision: ev.FusionDecision) -> Fields:
    return {
        "graph": decision.graph,
        "phase": decision.phase,
        "a": decision.a,
        "b": decision.b,
        "fused": decision.fused,
        "reason": decision.reason,
        "refused_by": decision.refused_by or None,
        "explanation": explain_refusal(decision.reason) or None,
        "kind": decision.kind or None,
        "a_nodes": list(decision.a_nodes),
        "b_nodes": list(decision.b_nodes),
        "bytes_saved": decision.bytes_saved,
    }


def _not_fused(pair: NotFused) -> Fields:
    relation = pair.relation
    return {
        "graph": pair.a.graph,
        "phase": pair.a.phase,
        "a": pair.a.name,
        "b": pair.b.name,
        "compared": bool(pair.refusals or pair.unrelated),
        "reasons": list(dict.fromkeys(decision.reason for decision in pair.refusals)),
        "pairs_without_shared_data": pair.unrelated,
        "shared_buffers": list(relation.buffers) if relation else None,
        "between": [kernel.name for kernel in relation.between] if relation else None,
    }


def _schedule(schedule: ev.ScheduleMade) -> Fields:
    nodes = [
        {"name": node.name, "buffers": list(node.buffers), "dependencies": list(node.dependencies)}
        for node in schedule.nodes
    ]
    return {
        "graph": schedule.graph,
        "phase": schedule.phase,
        "pairwise_attempts": schedule.pairwise_attempts,
        "nodes": nodes,
    }


def _line_traffic(snapshot: Snapshot) -> list[Fields]:
    return [
        {
            "file": display_path(file),
            "line": line,
            "calls": traffic.calls,
            "bytes": traffic.bytes,
            "share": traffic.share,
            "extern": traffic.extern,
            "calls_of_unknown_size": traffic.unknown,
        }
        for (file, line), traffic in sorted(line_traffic(snapshot.code.kernels).lines.items())
    ]
