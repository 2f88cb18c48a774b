"""Overlapped and exposed collectives: tcexplore's rows, from a trace, against a profile of two GPUs.

Two ranks compile a program with three collectives and run it under `torch.profiler`, without and with Inductor's
reordering for overlap. tcexplore reads the trace of rank 0: which kernels the generated code calls between the start
and the wait of a collective, and torch's estimates if it recorded them. The profile has the time of each NCCL kernel,
and the part during which no other kernel ran.

Run: python -m tests.benchmarks.exposed_communication
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from tcexplore.session.communication import collective_calls
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import open_inputs
from tcexplore.traces.trace_run import TraceRun, read_snapshot

CALLS = 10
"""Profiled calls."""

PROGRAM = """
import os, sys, torch
import torch._inductor.config
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.profiler import ProfilerActivity, profile

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
group = dist.group.WORLD

def step(x, w):
    reduced = functional.all_reduce(x * 2, "sum", group)
    hidden = x
    for _ in range(6):
        hidden = hidden @ w
    gathered = functional.all_gather_tensor(hidden, 0, group)
    scattered = functional.reduce_scatter_tensor(gathered.relu(), "sum", 0, group)
    return (reduced + scattered) @ w

torch._inductor.config.reorder_for_compute_comm_overlap = sys.argv[3] == "reordered"
x, w = (torch.randn(4096, 4096, device="cuda") / 64 for _ in range(2))
compiled = torch.compile(step)
with torch.no_grad():
    for _ in range(5):
        compiled(x, w)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        for _ in range(int(sys.argv[2])):
            compiled(x, w)
        torch.cuda.synchronize()
if rank == 0:
    profiled.export_chrome_trace(sys.argv[1])
dist.barrier()
dist.destroy_process_group()
"""

Interval = tuple[float, float]


def kernels(path: Path) -> tuple[list[Interval], list[Interval]]:
    """Return the intervals of the NCCL kernels and of the other kernels, in microseconds, by their start."""
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    ordered = sorted((event for event in events if event.get("cat") == "kernel"), key=lambda event: float(event["ts"]))
    sides: tuple[list[Interval], list[Interval]] = ([], [])
    for event in ordered:
        start = float(event["ts"])
        sides["nccl" not in event["name"]].append((start, start + float(event["dur"])))
    return sides


def overlap(interval: Interval, others: list[Interval]) -> float:
    """Return for how long any of the others, which do not overlap each other, runs during an interval."""
    start, end = interval
    return sum(max(0.0, min(end, last) - max(start, first)) for first, last in others)


def run(folder: Path, order: str) -> None:
    """Run the program, and print one line for each collective."""
    script, profile = folder / "program.py", folder / "profile.json"
    script.write_text(PROGRAM)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    environment = {"TORCH_TRACE": str(folder / "trace")}
    subprocess.run([*command, str(profile), str(CALLS), order], check=True, env={**os.environ, **environment})
    job = open_inputs(trace_inputs([str(folder / "trace")])).jobs[0]
    calls = list(collective_calls(read_snapshot(TraceRun(job.ranks[0], 1, len(job.ranks)))))
    communication, computation = kernels(profile)
    if len(communication) != len(calls) * CALLS:
        raise SystemExit(f"{len(communication)} NCCL kernels in {CALLS} calls of {len(calls)} collectives")
    for index, call in enumerate(calls):
        measured = communication[index :: len(calls)]
        total = median(end - start for start, end in measured)
        hidden = median(overlap(interval, computation) for interval in measured)
        code = "unknown" if call.overlapping_kernels is None else f"{len(call.overlapping_kernels)} kernels"
        estimate = "none" if call.estimate_us is None else f"{call.estimate_us:.0f} us, {call.exposed_us:.0f} exposed"
        print(
            f"{call.op:<24} overlaps with {code:<10} torch's estimate {estimate:<24} "
            f"measured {total:6.0f} us, {total - hidden:6.0f} us exposed",
            flush=True,
        )


def main() -> None:
    for order in ("unchanged", "reordered"):
        print(f"order of the generated code: {order}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            run(Path(folder), order)


if __name__ == "__main__":
    main()
