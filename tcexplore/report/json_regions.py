"""JSON of a script: its compiled regions and how it ended."""

from __future__ import annotations

from typing import Any

from tcexplore import events as ev
from tcexplore.report.json_graphs import place
from tcexplore.session import Snapshot
from tcexplore.session.timeline import CompileMark, RegionTimeline, timeline

Fields = dict[str, Any]


def script_fields(snapshot: Snapshot) -> Fields:
    """Return the keys of the report about a script: `regions`, and `script_end`, null for another entry."""
    graphs: dict[int, list[str]] = {}
    for known in snapshot.region_graphs:
        graphs.setdefault(known.region, []).append(known.graph)
    regions = timeline(snapshot).regions
    return {
        "regions": [_region(region, graphs.get(region.region.region, [])) for region in regions],
        "script_end": _script_end(snapshot.script_end),
    }


def _region(timeline: RegionTimeline, graphs: list[str]) -> Fields:
    region = timeline.region
    return {
        "region": region.region,
        "name": region.name,
        "kind": region.kind,
        **place(region.location),
        "graphs": graphs,
        "calls": _calls(timeline.calls),
        "compiles": [_compile(mark) for mark in timeline.marks],
    }


def _calls(calls: ev.RegionCalls | None) -> Fields | None:
    if calls is None:
        return None
    return {
        "count": calls.calls,
        "seconds": calls.seconds,
        "warm": calls.warm,
        "warm_median_us": calls.median_us,
        "warm_p10_us": calls.low_us,
        "warm_p90_us": calls.high_us,
        "warm_sampled": calls.sampled,
        "graphs_entered": calls.entered,
        "resumed_graphs_entered": calls.resumed,
        "without_graph": calls.uncompiled,
        "raised": calls.raised,
        "activity_bin_s": calls.bin_s,
        "activity": list(calls.activity),
    }


def _compile(mark: CompileMark) -> Fields:
    return {
        "kind": mark.kind,
        "call": mark.call,
        "at_s": mark.at,
        "seconds": mark.seconds,
        "graphs": list(mark.graphs),
        "capture_reason": mark.capture_reason,
        "failed_guards": [recompile.failed_guard for recompile in mark.causes],
    }


def _script_end(end: ev.ScriptEnded | None) -> Fields | None:
    if end is None:
        return None
    return {"seconds": end.seconds, "time_limit_s": end.time_limit, "timed_out": end.time_limit is not None}
