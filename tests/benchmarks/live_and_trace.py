"""A live run against the TORCH_TRACE of the same process: `python -m tests.benchmarks.live_and_trace [--keep FOLDER] [FILE…]`.

Graphs, nodes, breaks, recompiles, guards and kernels must be equal, but for the facts in `trace_lacks.py`. Samples are
the default; `unseen` stands for the programs in `tests/benchmarks/unseen`. With `--keep`, live reports and traces stay
in a folder, and a later run reads only the traces again.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.trace_lacks import Row, lack_of, without_calls_of_tcexplore

SAMPLES = Path(__file__).parents[2] / "samples"
UNSEEN = Path(__file__).with_name("unseen")
TCEXPLORE = [sys.executable, "-m", "tcexplore"]
EXPLAINED = {
    "while_loop": "torch compiles `while_loop` in tcexplore's eager calls too; the trace of the same process has that",
    "flex": "the same for FlexAttention, whose calls are captured",
}
"""Programs whose traces hold more than the live report."""

SHOWN = 3
"""Differences that are printed of each kind."""

NODE = ("name", "op", "target", "args", "inputs", "shape", "stride", "dtype", "device", "contiguous", "file", "line")
FIELDS = {
    "graphs": ("id", "ops", "file", "line", "function"),
    "breaks": ("graph", "kind", "id", "reason", "explanation", "hints", "file", "line"),
    "recompiles": (
        "graph", "failed_entry", "kind", "name", "dim", "old", "new", "reason", "limit_hit", "file", "line",
    ),
    "guards": ("graph", "kind", "source", "code", "summary", "structural"),
    "kernels": ("graph", "phase", "name", "language", "source", "ops", "nodes", "source_lines"),
}  # fmt: skip
KEYS = {
    "graphs": ("id",),
    "nodes": ("graph", "name"),
    "subgraphs": ("graph", "name"),
    "aten": ("graph", "stage", "phase", "name"),
    "breaks": ("graph", "kind", "line"),
    "recompiles": ("graph", "failed_entry"),
    "guards": ("graph", "kind", "source", "code"),
    "kernels": ("graph", "phase", "name"),
}
"""Fields that two rows of one fact share."""


def rows(report: dict[str, Any]) -> dict[str, list[Row]]:
    """Return what must be equal."""
    chosen = {kind: [{name: row[name] for name in names} for row in report[kind]] for kind, names in FIELDS.items()}

    def nodes(owner: dict[str, Any], **fields: str) -> Iterator[Row]:
        for node in owner["nodes"]:
            # torch prints no name of the output.
            name = f"{node['name'].rpartition('.')[0]}.output" if node["op"] == "output" else node["name"]
            yield {**fields, **{field: node[field] for field in NODE}, "name": name}

    graphs = report["graphs"]
    chosen["nodes"] = [row for graph in graphs for row in nodes(graph, graph=graph["id"])]
    chosen["subgraphs"] = [
        row for graph in graphs for part in graph["subgraphs"] for row in nodes(part, graph=graph["id"])
    ]
    chosen["aten"] = [
        row
        for graph in report["aten_graphs"]
        for row in nodes(graph, **{name: graph[name] for name in ("graph", "stage", "phase")})
    ]
    # torch numbers the dicts of builtins.
    text = re.sub(r"__builtins_dict___\d+", "__builtins_dict__", json.dumps(chosen))
    same: dict[str, list[Row]] = json.loads(text)
    return same


def report_of(*arguments: str, trace: str = "") -> dict[str, Any]:
    """Return the JSON report that a command prints."""
    environment = {**os.environ, "INDUCTOR_PROVENANCE": "1", **({"TORCH_TRACE": trace} if trace else {})}
    done = subprocess.run(
        [*TCEXPLORE, *arguments, "--json"], env=environment, capture_output=True, text=True, check=False
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def live_report(program: Path, folder: Path) -> dict[str, Any]:
    """Return the report of a live run, which writes its trace into the folder; a report that is there is used again."""
    kept = folder / "live.json"
    if not kept.exists():
        file = folder / f"{program.stem}.py"
        shutil.copy(program, file)
        (folder / "trace").mkdir()
        report = report_of("check", str(file), "--time-for", "0", "--follow", "100", trace=str(folder / "trace"))
        kept.write_text(json.dumps(report))
    live: dict[str, Any] = json.loads(kept.read_text())
    return live


def compare(program: Path, folder: Path) -> bool:
    """Print the differences; return whether there are none but for facts that a trace lacks.

    The first job of the traces is the worker; the others are processes in which it tries fixes of recompiles.
    """
    folder.mkdir(parents=True, exist_ok=True)
    live_run = live_report(program, folder)
    traced_run = without_calls_of_tcexplore(live_run, report_of("open", str(folder / "trace"), "--job", "1"))
    live, traced = rows(live_run), rows(traced_run)
    lacking: Counter[str] = Counter()
    different = 0
    for kind, key in KEYS.items():
        unequal = []
        for mine, other in _pairs(live[kind], traced[kind], key):
            lack = lack_of(kind, mine, other, live, traced)
            lacking.update([lack] if lack else [])
            unequal += [] if lack else [(mine, other)]
        different += len(unequal)
        for mine, other in unequal[: 0 if program.stem in EXPLAINED else SHOWN]:
            print(f"    {kind} {_difference(mine, other, key)}")
    figures = ", ".join(f"{len(values)} {kind}" for kind, values in live.items())
    verdict = f"{different} DIFFERENT" if different else "equal"
    print(f"{program.stem}: {verdict} ({figures})", *(f"    lacking, {n} times: {text}" for text, n in lacking.items()),
          sep="\n", flush=True)  # fmt: skip
    if different and (reason := EXPLAINED.get(program.stem)):
        print(f"    explained: {reason}")
    return not different


def _pairs(live: list[Row], traced: list[Row], key: tuple[str, ...]) -> Iterator[tuple[Row | None, Row | None]]:
    """Yield the rows that differ, in pairs of the same fact."""
    others: dict[str, list[Row]] = {}
    for row in traced:
        others.setdefault(json.dumps([row[name] for name in key]), []).append(row)
    for row in live:
        same = others.get(json.dumps([row[name] for name in key]), [])
        if row in same:
            same.remove(row)
        elif same:
            yield row, same.pop(0)
        else:
            yield row, None
    yield from ((None, row) for rest in others.values() for row in rest)


def _difference(mine: Row | None, other: Row | None, key: tuple[str, ...]) -> str:
    row = mine or other or {}
    name = " ".join(str(row[part])[:80] for part in key)
    if mine is None or other is None:
        return f"{name}: only {'live' if mine else 'in the trace'}: {str(row)[:300]}"
    fields = (
        f"{field} {str(mine[field])[:150]} | {str(other[field])[:150]}" for field in mine if mine[field] != other[field]
    )
    return f"{name}: {'; '.join(fields)}"


def main(arguments: list[str]) -> int:
    """Compare each file; return the number of files with a difference."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", type=Path)
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(arguments)
    files = [Path(file) for file in options.files if file != "unseen"]
    files += sorted(UNSEEN.glob("*.txt")) if "unseen" in options.files else []
    programs = files or sorted(SAMPLES.glob("*.py"))
    with tempfile.TemporaryDirectory() as folder:
        results = [compare(program, (options.keep or Path(folder)) / program.stem) for program in programs]
    print(f"{sum(results)} of {len(results)} equal")
    return len(results) - sum(results)


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
