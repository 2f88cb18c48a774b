"""What Inductor made, as JSON."""

from __future__ import annotations

from typing import Any

from tcexplore import events as ev
from tcexplore.report.json_graphs import pair

Fields = dict[str, Any]


def kernel(kernel: ev.Kernel) -> Fields:
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
        "scheduler_nodes": list(kernel.scheduler_nodes),
        "buffers": list(kernel.buffers),
        "bytes_read": kernel.bytes_read,
        "bytes_written": kernel.bytes_written,
        "flops": kernel.flops,
        "resources": None,
        "stages": None,
    }


def _line(line: ev.KernelLine) -> Fields:
    return {"n": line.n, "nodes": list(line.nodes), "source": [pair(location) for location in line.source]}


def wrapper(wrapper: ev.Wrapper) -> Fields:
    return {"graph": wrapper.graph, "phase": wrapper.phase, "source": wrapper.source}


def fusion(decision: ev.FusionDecision) -> Fields:
    return {
        "graph": decision.graph,
        "phase": decision.phase,
        "a": decision.a,
        "b": decision.b,
        "fused": decision.fused,
        "reason": decision.reason,
    }


def cache(used: ev.CacheUsed) -> Fields:
    return {"cache": used.cache, "graph": used.graph, "outcome": used.outcome, "reason": used.reason}
