"""Counts of `tcexplore open` against tlparse's own list: `python -m tests.benchmarks.trace_counts TLPARSE PATH…`.

Each PATH is a trace file or a folder that is searched for them. Compile ids, graphs, restarts, reports of breaks,
recompiles and cache lookups of each file must be equal.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

_ID = re.compile(r"^\[(!?[\d/]+)(?:_(\d+))?\]$")

Figures = dict[str, Any]


def listed_by_tlparse(tlparse: str, file: Path) -> Figures:
    """Return the figures in the folder that tlparse writes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [tlparse, str(file), "-p", "-o", folder, "--overwrite", "--no-browser"]
        subprocess.run(command, capture_output=True, check=True)
        compiles = json.loads(Path(folder, "compile_directory.json").read_text())
        kinds: Counter[str] = Counter()
        ids: set[str] = set()
        with_graph: set[str] = set()
        recompiled: set[str] = set()
        attempts: dict[str, int] = {}
        for name, compiled in compiles.items():
            match = _ID.match(name)
            artifacts = [re.sub(r"_\d+\.\w+$", "", artifact["name"]) for artifact in compiled["artifacts"]]
            kinds.update(artifacts)
            if match is None:
                continue
            ids.add(match[1])
            attempts[match[1]] = max(attempts.get(match[1], 0), int(match[2] or 0))
            if "dynamo_output_graph" in artifacts:
                with_graph.add(match[1])
            if "recompile_reasons" in artifacts or not match[1].endswith("/0"):
                recompiled.add(match[1])
    outcomes = {
        outcome: sum(n for kind, n in kinds.items() if re.search(rf"cache_{outcome}$", kind))
        for outcome in ("hit", "miss", "bypass")
    }
    return {
        "compile ids": sorted(ids),
        "graphs": len(with_graph),
        "restarts": sum(attempts.values()),
        "ids with a graph": sorted(with_graph),
        "breaks": kinds["dynamo_graph_break_reason"],
        "recompiles": len(recompiled),
        **{f"cache {outcome}": number for outcome, number in outcomes.items()},
    }


def read_by_tcexplore(file: Path) -> Figures:
    """Return the figures of the JSON report."""
    command = [sys.executable, "-m", "tcexplore", "open", str(file), "--json"]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    rank = report["ranks"][0]
    lookups = Counter(lookup["outcome"] for lookup in report["cache_lookups"])
    breaks = next((r["count"] for r in report["trace_records"] if r["kind"] == "dynamo_graph_break_reason"), 0)
    figures = {
        "compile ids": sorted(rank["compile_ids"]),
        "graphs": rank["graphs"],
        "restarts": rank["restarts"],
        "ids with a graph": sorted({graph["id"] for graph in report["graphs"]}),
        "breaks": rank["breaks"],
        "recompiles": rank["recompiles"],
        **{f"cache {outcome}": lookups[outcome] for outcome in ("hit", "miss", "bypass")},
    }
    counted = {
        "breaks": breaks,
        "cache hit": rank["cache_hits"],
        "cache miss": rank["cache_misses"],
        "cache bypass": rank["cache_bypasses"],
    }
    contradictions = {name: number for name, number in counted.items() if number != figures[name]}
    return {**figures, **({"ranks and lists": contradictions} if contradictions else {})}


def main(tlparse: str, *paths: str) -> int:
    """Print the differences of each file; return the number of files with one."""
    files = [file for path in map(Path, paths) for file in (sorted(path.rglob("*.log")) if path.is_dir() else [path])]
    totals: Counter[str] = Counter()
    wrong = 0
    for file in files:
        expected, figures = listed_by_tlparse(tlparse, file), read_by_tcexplore(file)
        unequal = [f"{name}: tlparse {expected.get(name)}, tcexplore {value}" for name, value in figures.items()
                   if value != expected.get(name)]  # fmt: skip
        wrong += bool(unequal)
        totals.update({name: value if isinstance(value, int) else len(value) for name, value in expected.items()})
        print(f"{file.parent.name}/{file.name}: {'; '.join(unequal) or 'equal'}", flush=True)
    print(f"{len(files) - wrong} of {len(files)} files equal; {dict(totals)}")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)
