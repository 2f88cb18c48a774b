"""Fake ranks against real Gloo ranks: `python -m tests.benchmarks.fake_ranks_identity [NAME…]`.

Graphs, breaks, schedules of collectives and DDP's splits of each rank must be identical.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tcexplore.session import Snapshot
from tcexplore.session.communication import collective_calls
from tcexplore.traces.rank_normalization import normalize
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import open_inputs
from tcexplore.traces.trace_run import TraceRun, read_snapshot
from tests.benchmarks.rank_divergence import PROGRAMS, Launcher

NAMES = ("groups", "tensor_parallel", "ddp", "fsdp", "sequence")
WORLD = 2
LIMIT_S = 300
"""Seconds after which the fake ranks of a program end."""

CACHES = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
"""Settings that make every rank compile its graphs: ranks share only compiled C++ code."""


def facts(run: Snapshot) -> dict[str, list[object]]:
    """Return what must be identical."""
    stages = [(graph.graph, graph.phase, graph.stage, graph.nodes) for graph in run.code.aten_graphs]
    return {
        "nodes": [
            (graph.graph, node.op, node.target, normalize(node.args), node.dtype, node.shape, node.location)
            for graph in run.graphs for node in graph.nodes
        ],
        "ATen nodes": [
            (graph, phase, stage, node.target, normalize(node.args), node.dtype, node.shape)
            for graph, phase, stage, nodes in stages for node in nodes
        ],
        "breaks": [(graph_break.graph, graph_break.kind, graph_break.location) for graph_break in run.breaks],
        "collectives": [
            (call.graph, call.phase, call.op, call.bytes, call.location, call.overlapping_kernels)
            for call in collective_calls(run)
        ],
        "splits": list(run.splits),
    }  # fmt: skip


def ranks_of(trace: Path) -> list[dict[str, list[object]]]:
    """Return the facts of each rank of a trace."""
    job = open_inputs(trace_inputs([str(trace)])).jobs[0]
    return [facts(read_snapshot(TraceRun(process, 1))) for process in job.ranks]


def run_fake(program: str, folder: Path) -> None:
    """Run a program on ranks of the fake process group."""
    environment = {
        **os.environ, "TORCH_TRACE": str(folder / "fake"), "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(folder.parent / "cache"), "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "tcexplore.worker.fake_ranks", "--world", str(WORLD), str(PROGRAMS / "spmd.py")]
    command = ["timeout", str(LIMIT_S), *command, "--program", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(re.sub(r"(?s)^.*(?=.{1500}$)", "…", done.stderr))


def main(names: list[str]) -> None:
    """Print for each program what differs."""
    os.environ.update(CACHES)
    launcher = Launcher()
    began, identical = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as temporary:
        for name in names:
            folder = Path(temporary, name)
            folder.mkdir()
            launcher.record(["spmd.py", "--program", name], WORLD, folder / "real", [folder.parent / "cache"])
            run_fake(name, folder)
            real, fake = ranks_of(folder / "real"), ranks_of(folder / "fake")
            unequal = {key for a, b in zip(real, fake, strict=True) for key in a if a[key] != b[key]}
            for key in sorted(unequal):
                mine, other = real[0][key], fake[0][key]
                first = next((pair for pair in zip(mine, other, strict=False) if pair[0] != pair[1]), ())
                print(f"    {key}: {len(mine)}, {len(other)};", *first)
            figures = ", ".join(f"{len(values)} {key}" for key, values in real[0].items())
            print(f"{name}: {'identical' if not unequal else 'DIFFERENT'} on {WORLD} ranks ({figures})", flush=True)
            identical += not unequal
    print(f"{identical} of {len(names)} identical, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:] or list(NAMES))
