"""What Inductor made, as JSON."""

from __future__ import annotations

from typing import Any

from tcexplore import events as ev
from tcexplore.documents.code.scheduler_reasons import explain_refusal
from tcexplore.documents.locations import display_path
from tcexplore.report.json_graphs import pair
from tcexplore.report.json_targets import codes, machine
from tcexplore.session import Snapshot
from tcexplore.session.fused_kernels import FusedKernel, Fusions, NotFused
from tcexplore.session.line_traffic import line_traffic

Fields = dict[str, Any]


def kernels(snapshot: Snapshot) -> list[Fields]:
    """The kernels of every device that there is code for, those of the run's target first."""
    found: list[Fields] = []
    for run in codes(snapshot):
        fusions = Fusions(run)
        found += [_kernel(run, kernel, fusions.fused(kernel)) for kernel in run.code.kernels]
    return found


def _kernel(snapshot: Snapshot, kernel: ev.Kernel, what: FusedKernel) -> Fields:
    return {
        "name": kernel.name,
        "graph": kernel.graph,
        "phase": kernel.phase,
        "language": kernel.language,
        "kind": kernel.kind,
        "source": kernel.source,
        "ops": list(kernel.ops),
        "nodes": list(kernel.nodes),
        "source_lines": [pair(location) for location in kernel.source_lines],
        "lines": [_line(line) for line in kernel.lines],
        "fusion": list(what.kinds),
        "inlined": what.inlined,
        "fused_nodes": [list(group) for group in what.groups],
        "scheduler_nodes": list(kernel.scheduler_nodes),
        "buffers": list(kernel.buffers),
        "bytes_read": kernel.bytes_read,
        "bytes_written": kernel.bytes_written,
        "bytes_saved": kernel.bytes_saved,
        "flops": kernel.flops,
        "dtypes": list(kernel.dtypes),
        "calls": [_call(call) for call in kernel.calls],
        **machine(snapshot, kernel),
    }


def _call(call: ev.KernelCall) -> Fields:
    return {
        "order": call.order,
        "nodes": list(call.nodes),
        "source_lines": [pair(location) for location in call.source_lines],
        "lines": [_line(line) for line in call.lines],
        "buffers": list(call.buffers),
        "bytes_read": call.bytes_read,
        "bytes_written": call.bytes_written,
    }


def traffic(snapshot: Snapshot) -> list[Fields]:
    """By line, what the kernels move that it takes part in; a fused kernel counts in full for each of its lines."""
    return [
        {
            "file": display_path(file),
            "line": line,
            "calls": found.calls,
            "bytes": found.bytes,
            "share": found.share,
            "extern": found.extern,
            "calls_of_unknown_size": found.unknown,
        }
        for (file, line), found in sorted(line_traffic(snapshot.code.kernels).lines.items())
    ]


def _line(line: ev.KernelLine) -> Fields:
    return {"n": line.n, "nodes": list(line.nodes), "source": [pair(location) for location in line.source]}


def wrapper(wrapper: ev.Wrapper) -> Fields:
    return {
        "graph": wrapper.graph,
        "phase": wrapper.phase,
        "source": wrapper.source,
        "reused": [list(pair) for pair in wrapper.reused],
    }


def fusion(decision: ev.FusionDecision) -> Fields:
    return {
        "graph": decision.graph,
        "phase": decision.phase,
        "a": decision.a,
        "b": decision.b,
        "fused": decision.fused,
        "reason": decision.reason,
        "refused_by": decision.refused_by or None,
        "in_words": explain_refusal(decision.reason) or None,
        "kind": decision.kind or None,
        "a_nodes": list(decision.a_nodes),
        "b_nodes": list(decision.b_nodes),
        "bytes_saved": decision.bytes_saved,
    }


def neighbors(snapshot: Snapshot) -> list[Fields]:
    """Why each two generated kernels that follow each other were not fused; `between` stand in the way of data from the
    one to the other, `compared` is false where torch never asked."""
    return [_apart(found) for found in Fusions(snapshot).neighbors()]


def _apart(found: NotFused) -> Fields:
    relation = found.relation
    return {
        "graph": found.a.graph,
        "phase": found.a.phase,
        "a": found.a.name,
        "b": found.b.name,
        "compared": bool(found.refusals or found.unrelated),
        "reasons": list(dict.fromkeys(decision.reason for decision in found.refusals)),
        "pairs_without_shared_data": found.unrelated,
        "shared_buffers": list(relation.buffers) if relation else None,
        "between": [kernel.name for kernel in relation.between] if relation else None,
    }


def schedule(made: ev.ScheduleMade) -> Fields:
    """The scheduler's nodes after fusion: what each uses, and which others it needs."""
    nodes = [
        {"name": node.name, "buffers": list(node.buffers), "needs": list(node.dependencies)} for node in made.nodes
    ]
    return {"graph": made.graph, "phase": made.phase, "compared_with_next": made.pairwise_attempts, "nodes": nodes}


def cache(used: ev.CacheLookup) -> Fields:
    return {"cache": used.cache, "graph": used.graph, "outcome": used.outcome, "reason": used.reason}
