"""A script's compiled regions as JSON."""

from __future__ import annotations

from typing import Any

from tcexplore import events as ev
from tcexplore.report import json_graphs
from tcexplore.session import Snapshot
from tcexplore.session.timeline import CompileMark, RegionTimeline, timeline

Fields = dict[str, Any]


def script(snapshot: Snapshot) -> Fields:
    """`regions`, empty for a file that is no script, and `followed`, null for one."""
    graphs: dict[int, list[str]] = {}
    for known in snapshot.region_graphs:
        graphs.setdefault(known.region, []).append(known.graph)
    lanes = timeline(snapshot).regions
    return {
        "regions": [_lane(lane, graphs.get(lane.region.region, [])) for lane in lanes],
        "followed": _followed(snapshot.script_end),
    }


def _lane(lane: RegionTimeline, graphs: list[str]) -> Fields:
    made = lane.region
    return {
        "region": made.region,
        "name": made.name,
        "kind": made.kind,
        **json_graphs.place(made.location),
        "graphs": graphs,
        "calls": _calls(lane.calls),
        "compiles": [_mark(mark) for mark in lane.marks],
    }


def _calls(seen: ev.RegionCalls | None) -> Fields | None:
    if seen is None:
        return None
    return {
        "count": seen.calls,
        "seconds": seen.seconds,
        "warm": seen.warm,
        "warm_median_us": seen.median_us,
        "warm_p10_us": seen.low_us,
        "warm_p90_us": seen.high_us,
        "warm_sampled": seen.sampled,
        "graphs_entered": seen.entered,
        "graphs_entered_behind_a_break": seen.resumed,
        "ran_no_graph": seen.uncompiled,
        "raised": seen.raised,
        "activity_bin_s": seen.bin_s,
        "activity": list(seen.activity),
    }


def _mark(mark: CompileMark) -> Fields:
    return {
        "what": mark.kind,
        "call": mark.call,
        "at_s": mark.at,
        "seconds": mark.seconds,
        "graphs": list(mark.graphs),
        "captured_anew": mark.capture_reason,
        "failed_guards": [again.failed_guard for again in mark.causes],
    }


def _followed(told: ev.ScriptEnded | None) -> Fields | None:
    return (
        None
        if told is None
        else {"seconds": told.seconds, "limit_s": told.time_limit, "ended": told.time_limit is not None}
    )
