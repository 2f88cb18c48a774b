"""The invariants of a JSON report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.report.timing_consistency import timing_contradictions

_OF_GRAPHS = ("aten_graphs", "kernels", "wrappers", "passes", "partitions")
"""Records that belong to a listed graph."""
_OF_COMPILES = ("guards", "recompiles", "symbols", "phase_times", "breaks")
"""Records that belong to a compile, which may have no graph: then `graphless_compiles` or a limit explains it."""


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
    known = graphs | _graphless(report)
    for key, listed in (*((key, graphs) for key in _OF_GRAPHS), *((key, known) for key in _OF_COMPILES)):
        named = {record["graph"] for record in report[key]} - {None, ""}
        yield from (f"{key} names {graph}, which is not listed" for graph in sorted(named - listed))
    failed = {recompile["failed_entry"] for recompile in report["recompiles"]}
    yield from (f"the failed entry {graph} is not listed" for graph in sorted(failed - known))
    called = {graph for call in report["calls"] for graph in call["graphs"]}
    yield from (f"a call compiles {graph}, which is not listed" for graph in sorted(called - known))


def _graphless(report: dict[str, Any]) -> set[str]:
    """Return the compile ids that have no graph for a reason that the report gives."""
    over_limit = {entry["graph"] for frame in report["frames"] for entry in frame["over_limit"]}
    skipped = {frame["graph"] for frame in report["skipped_frames"]}
    return over_limit | skipped | {compile_["graph"] for compile_ in report["graphless_compiles"]}


def _miscounted(report: dict[str, Any]) -> Iterator[str]:
    for call in report["calls"]:
        if call["compiles"] != len(call["graphs"]):
            yield f"call {call['index']} has {call['compiles']} compiles, but names {len(call['graphs'])}"
    graphs = {graph["id"] for graph in report["graphs"]}
    entries = {entry["graph"] for frame in report["frames"] for entry in frame["entries"]}
    yield from (f"graph {graph} has no cache entry" for graph in sorted(graphs - entries) if report["status"] == "ok")
