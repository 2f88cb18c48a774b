"""Facts of a live run that TORCH_TRACE does not hold, each recognized as narrowly as possible.

`docs/traces.md` lists them for users.
"""

from __future__ import annotations

import re
from typing import Any

Row = dict[str, Any]
Rows = dict[str, list[Row]]

LIBRARY_LINE = "the user's line of an op inside library code"
PASS_LINE = "the line of a node that a pass made"
NO_GRAPH = "the value of a call that no graph was compiled for"
OBJECT = "which object was passed"
BACKEND = "the backend of a cache entry"
OPS = "ops that a kernel's name does not have, and their order"
NO_MAPPING = "the nodes of a kernel without a record of its provenance"
KERNEL_LINES = "lines of a kernel whose nodes lack theirs"
SUBGRAPH_INPUT = "the name of an input of a subgraph"
EQUAL_SIZES = "which of several equal sizes an input stands for"
SYMBOL = "the symbol of a size that torch reads from another tensor, or replaces later"
_SYMBOL = re.compile(r"\bs\d+(?: \+ \d+)?\b|\?")
JOINT = "the joint graph after Inductor made its numbers tensors"


def without_calls_of_tcexplore(live: dict[str, Any], traced: dict[str, Any]) -> dict[str, Any]:
    """Return the report of a trace without what tcexplore's own calls compiled: the trace is of the same process."""
    extra, known = live["extra_compiles"], {graph["id"] for graph in live["graphs"]}
    late = [graph["id"] for graph in traced["graphs"] if graph["id"] not in known]
    if not extra or len(late) != extra["compiles"]:
        return traced
    causes = {row["graph"] for row in live["recompiles"]} | known
    kept = {name: [row for row in traced[name] if row["graph"] in causes] for name in ("recompiles", "skipped_frames")}
    for name in ("guards", "kernels", "aten_graphs", "breaks"):
        kept[name] = [row for row in traced[name] if row["graph"] not in late]
    return {**traced, **kept, "graphs": [graph for graph in traced["graphs"] if graph["id"] in known]}


def lack_of(kind: str, mine: Row | None, other: Row | None, live: Rows, traced: Rows) -> str:
    """Return why a trace cannot have a live fact, empty if it could."""
    if kind == "aten" and (mine or other or {}).get("stage") == "joint" and _has_numbers(live, mine or other or {}):
        return JOINT
    if kind == "recompiles" and _is_of_another_backend(mine, other, live):
        return BACKEND
    if mine is None or other is None:
        return ""
    fields = {field for field in mine if mine[field] != other[field]}
    if kind == "recompiles" and fields <= {"new", "reason", "kind"} and not other["new"]:
        if mine["kind"] == "identity":
            return OBJECT
        return "" if any(row["graph"] == mine["graph"] for row in live["guards"]) else NO_GRAPH
    if kind == "guards" and fields == {"summary"}:
        same = _SYMBOL.sub("?", mine["summary"]) == _SYMBOL.sub("?", other["summary"])
        return SYMBOL if mine["kind"] == "TENSOR_MATCH" and same else ""
    if kind == "subgraphs" and fields == {"target"} and mine["op"] == "placeholder":
        return SUBGRAPH_INPUT
    if kind == "nodes" and fields == {"target"} and mine["op"] == "placeholder" and "()[" in mine["target"]:
        return EQUAL_SIZES if "()[" in other["target"] else ""
    if kind == "kernels":
        return _kernel_lack(fields, mine, other, live, traced)
    return _line_lack(kind, fields, mine, other, traced)


def _line_lack(kind: str, fields: set[str], mine: Row, other: Row, traced: Rows) -> str:
    if kind not in ("nodes", "subgraphs", "aten", "recompiles") or not fields <= {"file", "line"}:
        return ""
    if kind == "aten" and other["line"] is None:
        return PASS_LINE
    graph = other.get("failed_entry") or other["graph"]
    function = next((row for row in traced["graphs"] if row["id"] == graph), None)
    at_function = function is not None and (other["file"], other["line"]) == (function["file"], function["line"])
    return LIBRARY_LINE if at_function and mine["line"] else ""


def _kernel_lack(fields: set[str], mine: Row, other: Row, live: Rows, traced: Rows) -> str:
    if not fields <= {"ops", "nodes", "source_lines"}:
        return ""
    lacks = [
        _ops_lack(mine, other, live) if "ops" in fields else OPS,
        (NO_MAPPING if set(other["nodes"]) < set(mine["nodes"]) else "") if "nodes" in fields else OPS,
        _lines_lack(mine, other, live, traced) if "source_lines" in fields else OPS,
    ]
    return "" if "" in lacks else next((lack for lack in lacks if lack != OPS), OPS)


def _ops_lack(mine: Row, other: Row, live: Rows) -> str:
    """Return the lack if the trace has ops of the live run only, and misses only those that the name does not have."""
    targets = {
        ".".join(row["target"].split(".")[:2])
        for row in live["aten"]
        if row["graph"] == mine["graph"] and row["name"] in mine["nodes"]
    }
    missing = set(mine["ops"]) - set(other["ops"])
    unnamed = {op for op in missing if op.rpartition(".")[2] not in mine["name"]}
    return OPS if set(other["ops"]) <= set(mine["ops"]) and missing <= targets | unnamed else ""


def _lines_lack(mine: Row, other: Row, live: Rows, traced: Rows) -> str:
    """Return the lack if all nodes with another line lack theirs, or are unknown in the trace."""
    if not other["nodes"] or not mine["source_lines"]:
        return KERNEL_LINES
    places = {
        (row["stage"], row["name"]): (row["file"], row["line"]) for row in live["aten"] if row["graph"] == mine["graph"]
    }
    unequal = {
        place
        for row in traced["aten"]
        if row["graph"] == mine["graph"]
        for place in ((row["file"], row["line"]), places.get((row["stage"], row["name"])))
        if (row["file"], row["line"]) != places.get((row["stage"], row["name"]))
    }
    unequal |= {place for (_, name), place in places.items() if name in {*mine["nodes"]} - {*other["nodes"]}}
    wrong = {tuple(line) for line in mine["source_lines"]} ^ {tuple(line) for line in other["source_lines"]}
    return KERNEL_LINES if wrong <= unequal else ""


def _has_numbers(live: Rows, row: Row) -> bool:
    return any(
        other["stage"] == "joint" and other["graph"] == row["graph"] and "convert_element_type" in other["name"]
        for other in live["aten"]
    )


def _is_of_another_backend(mine: Row | None, other: Row | None, live: Rows) -> bool:
    """Return whether an entry belongs to another backend: torch may report the guard that fails before that."""
    if mine is not None:
        return bool(mine["kind"] == "backend")
    backends = {row["failed_entry"] for row in live["recompiles"] if row["kind"] == "backend"}
    usable = [row for row in live["recompiles"] if other is not None and row["graph"] == other["graph"]]
    return other is not None and bool(backends) and bool(usable)
