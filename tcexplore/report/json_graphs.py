"""JSON of graphs: what Dynamo captured, and what AOTAutograd and Inductor's passes made of it."""

from __future__ import annotations

from typing import Any

from tcexplore import events as ev
from tcexplore.documents.locations import display_path
from tcexplore.session.ranked_breaks import RankedBreak

Fields = dict[str, Any]


def place(location: ev.Location | None) -> Fields:
    """Return `file` and `line`, both null if there is no location."""
    if location is None:
        return {"file": None, "line": None}
    return {"file": display_path(location.file), "line": location.line}


def function_place(location: ev.Location | None) -> Fields:
    """Return `file`, `line` and `function`."""
    return {**place(location), "function": location.function if location else None}


def pairs(locations: tuple[ev.Location, ...]) -> list[list[Any]]:
    """Return each location as `["model.py", 56]`."""
    return [[display_path(location.file), location.line] for location in locations]


def op_times(ops: tuple[tuple[str, int, float], ...]) -> list[Fields]:
    """Return ops with their count and total time."""
    return [{"op": name, "count": count, "total_us": total} for name, count, total in ops]


def graph(graph: ev.GraphCaptured) -> Fields:
    """Return a Dynamo graph."""
    return {
        "id": graph.graph,
        "ops": graph.ops,
        **function_place(graph.frame),
        "nodes": [_node(node) for node in graph.nodes],
        "code": graph.code,
    }


def aten_graph(graph: ev.AtenGraph) -> Fields:
    """Return a graph of AOTAutograd or Inductor."""
    return {
        "graph": graph.graph,
        "stage": graph.stage,
        "phase": graph.phase,
        "nodes": [_node(node) for node in graph.nodes],
        "code": graph.code,
    }


def _node(node: ev.FxNode) -> Fields:
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
        "stack": pairs(node.stack),
        "module": node.module,
        "origins": list(node.origins),
    }


def _dimensions(sizes: tuple[str, ...] | None) -> list[int | str] | None:
    """Return numbers as numbers and symbols as text."""
    if sizes is None:
        return None
    return [int(size) if size.lstrip("-").isdecimal() else size for size in sizes]


def graph_break(broken: ev.GraphBreak) -> Fields:
    """Return a graph break."""
    return {
        "id": broken.id,
        "graph": broken.graph,
        "kind": broken.kind,
        "reason": broken.reason,
        "explanation": broken.explanation,
        "hints": list(broken.hints),
        "context": broken.context,
        "registry_explanation": broken.registry_explanation,
        "registry_hints": list(broken.registry_hints),
        "url": broken.url,
        **function_place(broken.location),
        "user_code": broken.code,
        "stack": [function_place(location) for location in broken.stack],
        "count": broken.count,
    }


def ranked_break(ranked: RankedBreak) -> Fields:
    """Return a graph break with its cost, null if unknown."""
    cost = None
    if ranked.cost_us is not None:
        cost = {
            "us": ranked.cost_us,
            "share": ranked.share,
            "gaps": ranked.gaps,
            "whole_function": ranked.whole_function,
            "ops": op_times(ranked.ops),
        }
    return {**graph_break(ranked.graph_break), "cost": cost}


def skipped_frame(skipped: ev.FrameSkipped) -> Fields:
    """Return a frame that Dynamo did not compile."""
    return {**function_place(skipped.frame), "reason": skipped.reason, "graph": skipped.graph}


def eager_ops(ops: ev.EagerOps | None) -> Fields | None:
    """Return the ops that run outside every graph."""
    return None if ops is None else {"region_entries": ops.region_entries, "ops": op_times(ops.ops)}


def partition(partition: ev.Partitioned) -> Fields:
    """Return what the forward saves for the backward."""
    saved = [{"name": s.name, "bytes": s.bytes, "input": s.input, **place(s.location)} for s in partition.saved]
    return {"graph": partition.graph, "saved_for_backward": saved, "recomputed": list(partition.recomputed)}


def pass_run(run: ev.PassRun) -> Fields:
    """Return what one pass of Inductor changed."""
    return {
        "graph": run.graph,
        "stage": run.stage,
        "phase": run.phase,
        "name": run.name or None,
        "nodes_before": run.nodes_before,
        "nodes_after": run.nodes_after,
        "changes": [{"at": hunk.at, "removed": list(hunk.removed), "added": list(hunk.added)} for hunk in run.hunks],
    }
