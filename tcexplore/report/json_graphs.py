"""What Dynamo did, as JSON."""

from __future__ import annotations

from typing import Any

from tcexplore import events as ev
from tcexplore.documents.locations import display_path
from tcexplore.session.ranked_breaks import RankedBreak

Fields = dict[str, Any]


def place(location: ev.Location | None) -> Fields:
    """`file` and `line`, both null where there is no location."""
    if location is None:
        return {"file": None, "line": None}
    return {"file": display_path(location.file), "line": location.line}


def pair(location: ev.Location) -> list[Any]:
    """`["model.py", 56]`."""
    return [display_path(location.file), location.line]


def stack(locations: tuple[ev.Location, ...]) -> list[Fields]:
    """The user's frames, outermost first."""
    return [{**place(location), "function": location.function} for location in locations]


def _dimensions(sizes: tuple[str, ...] | None) -> list[int | str] | None:
    """Numbers as numbers, symbols as text."""
    if sizes is None:
        return None
    return [int(size) if size.lstrip("-").isdecimal() else size for size in sizes]


def node(node: ev.FxNode) -> Fields:
    return {
        "name": node.name,
        "op": node.op,
        "target": node.target,
        "args": node.args,
        "inputs": list(node.inputs),
        "shape": _dimensions(node.shape),
        "stride": _dimensions(node.stride),
        "contiguous": node.contiguous,
        "dtype": node.dtype,
        "device": node.device,
        **place(node.location),
        "stack": [pair(location) for location in node.stack],
        "module": node.module,
        "origins": list(node.origins),
    }


def graph(graph: ev.GraphCaptured) -> Fields:
    return {
        "id": graph.graph,
        "ops": graph.ops,
        **place(graph.frame),
        "function": graph.frame.function if graph.frame else None,
        "nodes": [node(n) for n in graph.nodes],
        "code": graph.code,
    }


def aten_graph(graph: ev.AtenGraph) -> Fields:
    return {
        "graph": graph.graph,
        "stage": graph.stage,
        "phase": graph.phase,
        "nodes": [node(n) for n in graph.nodes],
        "code": graph.code,
    }


def graph_break(found: ev.GraphBreak) -> Fields:
    return {
        "id": found.id,
        "graph": found.graph,
        "kind": found.kind,
        "reason": found.reason,
        "explanation": found.explanation,
        "hints": list(found.hints),
        "context": found.context,
        "registry_explanation": found.registry_explanation,
        "registry_hints": list(found.registry_hints),
        "url": found.url,
        **place(found.location),
        "function": found.location.function if found.location else None,
        "user_code": found.code,
        "stack": stack(found.stack),
        "count": found.count,
    }


def costed(found: RankedBreak) -> Fields:
    """A break and what it costs in one warm unit of calls; null where that is not known."""
    ops = [{"op": name, "count": times, "total_us": total} for name, times, total in found.ops]
    return {
        **graph_break(found.graph_break),
        "cost_us": found.cost_us,
        "cost_share": found.share,
        "cost_gaps": found.gaps,
        "cost_whole_function": found.whole_function,
        "cost_ops": ops,
    }


def skipped(frame: ev.FrameSkipped) -> Fields:
    return {**place(frame.frame), "function": frame.frame.function, "reason": frame.reason, "graph": frame.graph}


def outside(found: ev.EagerOps | None) -> Fields | None:
    if found is None:
        return None
    ops = [{"op": name, "count": times, "total_us": total} for name, times, total in found.ops]
    return {"regions": found.region_entries, "ops": ops}


def guard(installed: ev.GuardsInstalled, guard: ev.Guard) -> Fields:
    return {
        "graph": installed.graph,
        "kind": guard.kind,
        "source": guard.source,
        "code": list(guard.code),
        "summary": guard.summary,
        "structural": guard.structural,
        **place(guard.location),
        "user_code": guard.user_code,
    }


def recompile(found: ev.Recompiled) -> Fields:
    return {
        "graph": found.graph,
        "of": found.failed_entry,
        "failed_guard": found.failed_guard,
        "reason": found.reason,
        "old": found.old,
        "new": found.new,
        **place(found.location),
        "entries": found.entry_count,
        "limit": found.limit,
        "limit_hit": found.limit_hit,
        "kind": found.kind or None,
        "what": found.name or None,
        "dim": found.dim,
        "origin": found.origin or None,
    }
