"""JSON of kernels: source, fusion, machine code, resources, measured times and memory traffic."""

from __future__ import annotations

from tcexplore import events as ev
from tcexplore.documents.locations import display_path
from tcexplore.report.json_records import Fields, fields
from tcexplore.session import Snapshot
from tcexplore.session.fused_kernels import FusedKernel, Fusions, NotFused
from tcexplore.session.kernel_facts import achieved, kernel_facts, kernel_loops
from tcexplore.session.line_traffic import line_traffic


def kernel_fields(snapshot: Snapshot) -> Fields:
    """Return the keys of the report about generated code."""
    code = snapshot.code
    codes = [code, *snapshot.other_codes]
    return {
        "aten_graphs": code.aten_graphs,
        "kernels": _kernels(snapshot),
        "lowered": [lowered for other in codes for lowered in other.lowered],
        "not_lowered": [skipped for other in codes for skipped in other.not_lowered],
        "wrappers": code.wrappers,
        "fusion_decisions": code.fusion,
        "unfused_neighbors": [_not_fused(pair) for pair in Fusions(snapshot).neighbors()],
        "schedules": code.schedules,
        "line_traffic": _line_traffic(snapshot),
        "partitions": code.partitions,
        "passes": code.passes,
        "cuda_graphs": _cuda_graphs(snapshot),
    }


def _kernels(snapshot: Snapshot) -> list[Fields]:
    """Return the kernels of every target with code, the target in view first."""
    kernels: list[Fields] = []
    others = (snapshot.with_target(code.target) for code in snapshot.other_codes if code.kernels)
    for run in (snapshot, *others):
        fusions = Fusions(run)
        kernels += [_kernel(run, k, fusions.fused(k)) for k in run.code.kernels if k.target == run.target]
    return kernels


def _kernel(snapshot: Snapshot, kernel: ev.Kernel, fused: FusedKernel) -> Fields:
    facts = kernel_facts(snapshot.code, kernel)
    assembled = facts.assembled
    return fields(
        "kernel",
        kernel,
        fusion_kinds=fused.kinds,
        ops_inlined=fused.inlined,
        fused_nodes=fused.groups,
        resources=assembled.resources if assembled else None,
        loops=kernel_loops(snapshot.code, kernel),
        vectors=assembled.vectors if assembled else None,
        stages={stage.name: fields("stage", stage) for stage in assembled.stages} if assembled else None,
        assembled_config=assembled.config or None if assembled else None,
        not_assembled=facts.not_assembled.reason if facts.not_assembled else None,
        roofline=facts.roofline,
        measured=_measured(snapshot, kernel, facts.roofline),
    )


def _measured(snapshot: Snapshot, kernel: ev.Kernel, point: ev.RooflinePoint | None) -> Fields | None:
    """Return the measured time of a kernel in one call; None if it was not measured."""
    rates = achieved(snapshot, kernel, point)
    if rates is None:
        return None
    return fields(
        "measured_kernel",
        rates.measured,
        bytes_per_s=rates.memory,
        flop_per_s=rates.compute,
        memory_peak_share=rates.memory_share,
        compute_peak_share=rates.compute_share,
        bound_share=rates.bound_share,
    )


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


def _line_traffic(snapshot: Snapshot) -> list[Fields]:
    traffic = sorted(line_traffic(snapshot.code.kernels).lines.items())
    return [
        fields("line_traffic", of_line, file=display_path(file), line=line, calls_of_unknown_size=of_line.unknown)
        for (file, line), of_line in traffic
    ]


def _cuda_graphs(snapshot: Snapshot) -> Fields:
    """Return recorded and skipped CUDA graphs, and the launches that they save."""
    profile = snapshot.call_profile
    return {
        "recorded": [fields("cuda_graph", graph) for graph in snapshot.cuda_graphs],
        "skipped": [fields("skipped_cuda_graph", skipped) for skipped in snapshot.cuda_graphs_skipped],
        "replays_per_call": profile.replays if profile else None,
        "launches_saved_per_call": profile.replayed_tasks - profile.replays if profile else None,
    }
