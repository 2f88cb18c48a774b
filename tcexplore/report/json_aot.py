"""What AOTAutograd and Inductor's passes did, as JSON."""

from __future__ import annotations

from typing import Any

from tcexplore import events as ev
from tcexplore.report.json_graphs import place

Fields = dict[str, Any]


def partition(cut: ev.Partitioned) -> Fields:
    """What the forward keeps for the backward; an input is alive anyway."""
    saved = [{"name": s.name, "bytes": s.bytes, "input": s.input, **place(s.location)} for s in cut.saved]
    return {"graph": cut.graph, "saved": saved, "recomputed": list(cut.recomputed)}


def pass_run(run: ev.PassRun) -> Fields:
    """`name` is null for what changed between the passes that torch names."""
    return {
        "graph": run.graph,
        "stage": run.stage,
        "phase": run.phase,
        "name": run.name or None,
        "nodes_before": run.nodes_before,
        "nodes_after": run.nodes_after,
        "changes": [{"at": hunk.at, "removed": list(hunk.removed), "added": list(hunk.added)} for hunk in run.hunks],
    }
