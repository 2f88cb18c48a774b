"""A live run against the TORCH_TRACE of the same process: `python -m tests.benchmarks.live_and_trace [FILE…]`.

Nodes, breaks, recompiles, guards and kernels must be equal; what a trace lacks is left out. Samples are the default.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parents[2] / "samples"
TCEXPLORE = [sys.executable, "-m", "tcexplore"]

NODE = ("name", "op", "target", "args", "inputs", "shape", "stride", "dtype", "device", "line")
BREAK = ("graph", "kind", "reason", "file", "line")
RECOMPILE = ("graph", "failed_entry", "kind", "name", "old", "new")
GUARD = ("graph", "kind", "source", "summary", "structural")
KERNEL = ("graph", "phase", "name", "language", "source")


def facts(report: dict[str, Any]) -> dict[str, list[Any]]:
    """Return what must be equal."""

    def rows(key: str, names: tuple[str, ...]) -> list[Any]:
        return [[record[name] for name in names] for record in report[key]]

    guards = json.dumps(sorted(rows("guards", GUARD), key=str))
    return {
        "nodes": [
            [graph["id"], *(node[name] for name in NODE)] for graph in report["graphs"] for node in graph["nodes"]
        ],
        "breaks": sorted(rows("breaks", BREAK), key=str),  # a live run has the most expensive one first
        "recompiles": rows("recompiles", RECOMPILE),
        # torch numbers the dicts of builtins.
        "guards": json.loads(re.sub(r"__builtins_dict___\d+", "__builtins_dict__", guards)),
        "kernels": rows("kernels", KERNEL),
    }


def report_of(*arguments: str, trace: str = "") -> dict[str, Any]:
    """Return the JSON report that a command prints."""
    environment = {**os.environ, "INDUCTOR_PROVENANCE": "1", **({"TORCH_TRACE": trace} if trace else {})}
    done = subprocess.run(
        [*TCEXPLORE, *arguments, "--json"], env=environment, capture_output=True, text=True, check=False
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def compare(file: Path) -> bool:
    """Print the first difference of each kind; return whether there is none."""
    with tempfile.TemporaryDirectory() as folder:
        live = facts(report_of("check", str(file), "--time-for", "0", trace=folder))
        traced = facts(report_of("open", folder))
    unequal = [key for key in live if live[key] != traced[key]]
    for key in unequal:
        pairs = zip(live[key], traced[key], strict=False)
        first = next(([*pair] for pair in pairs if pair[0] != pair[1]), [])
        print(f"    {key}: live {len(live[key])}, trace {len(traced[key])}; {str(first)[:600]}")
    figures = ", ".join(f"{len(values)} {key}" for key, values in live.items())
    print(f"{file.name}: {'equal' if not unequal else 'DIFFERENT'} ({figures})", flush=True)
    return not unequal


def main(files: list[str]) -> None:
    """Compare each file."""
    paths = [Path(file) for file in files] or sorted(SAMPLES.glob("*.py"))
    print(f"{sum(map(compare, paths))} of {len(paths)} equal")


if __name__ == "__main__":
    main(sys.argv[1:])
