"""The invariants of a JSON report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.report.timing_consistency import timing_contradictions

_OF_GRAPHS = ("aten_graphs", "kernels", "wrappers", "passes", "partitions")
"""Records that belong to a listed graph."""
_OF_COMPILES = ("guards", "recompiles", "symbols", "phase_times", "breaks")
"""Records that belong to a compile, which may have no graph."""
_ATTEMPT = "compile_attempt_0"
"""torch's span of each compile of a frame, also of one that compiles nothing: then only its time is reported."""


def assert_report_consistent(report: dict[str, Any]) -> None:
    """Fail if a report contradicts itself."""
    assert inconsistencies(report) == []


def inconsistencies(report: dict[str, Any]) -> list[str]:
    """Return the contradictions of a report: repeated ids, records of graphs that are not listed, measured figures."""
    return [*_repeated(report), *_unlisted(report), *_miscounted(report), *timing_contradictions(report)]


def _repeated(report: dict[str, Any]) -> Iterator[str]:
    for graph, times in Counter(graph["id"] for graph in report["graphs"]).items():
        if times > 1:
            yield f"graph {graph} is listed {times} times"
    entries = Counter(entry["graph"] for frame in report["frames"] for entry in frame["entries"])
    yield from (f"entry {graph} is listed {times} times" for graph, times in entries.items() if times > 1)


def _unlisted(report: dict[str, Any]) -> Iterator[str]:
    graphs = {graph["id"] for graph in report["graphs"]}
    known = graphs | _compiles(report) | {span["graph"] for span in report["phase_times"] if span["name"] == _ATTEMPT}
    for key, listed in (*((key, graphs) for key in _OF_GRAPHS), *((key, known) for key in _OF_COMPILES)):
        named = {record["graph"] for record in report[key]} - {None, ""}
        yield from (f"{key} names {graph}, which is not listed" for graph in sorted(named - listed))
    failed = {recompile["failed_entry"] for recompile in report["recompiles"]}
    yield from (f"the failed entry {graph} is not listed" for graph in sorted(failed - known))
    called = {graph for call in report["calls"] for graph in call["graphs"]}
    yield from (f"a call compiles {graph}, which is not listed" for graph in sorted(called - known))


def _compiles(report: dict[str, Any]) -> set[str]:
    """Return the compile ids of all frames, with those that were not compiled."""
    frames = report["frames"]
    listed = {entry["graph"] for frame in frames for entry in (*frame["entries"], *frame["over_limit"])}
    return listed | {skipped["graph"] for skipped in report["skipped_frames"]}


def _miscounted(report: dict[str, Any]) -> Iterator[str]:
    for call in report["calls"]:
        if call["compiles"] != len(call["graphs"]):
            yield f"call {call['index']} has {call['compiles']} compiles, but names {len(call['graphs'])}"
    graphs = {graph["id"] for graph in report["graphs"]}
    entries = {entry["graph"] for frame in report["frames"] for entry in frame["entries"]}
    yield from (f"graph {graph} has no cache entry" for graph in sorted(graphs - entries) if report["status"] == "ok")
