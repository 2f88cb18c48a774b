"""Time of a job under `tcexplore run` over its time without: `python -m tests.benchmarks.run_overhead [PAIRS]`.

The job compiles and trains a small model. It runs plainly and under `tcexplore run`, in turns, and at first once with
TORCH_TRACE alone. Its output must be the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from statistics import median

JOB = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256))
step = torch.compile(model)
for number in range(4000):
    loss = step(torch.ones(64, 256)).sum()
    loss.backward()
    if not number % 500:
        print(number, tuple(model[0].weight.shape), flush=True)
"""


def run(command: Sequence[str], environment: dict[str, str], outputs: set[bytes]) -> float:
    """Return how long a command takes; add its output."""
    began = time.monotonic()
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    outputs.add(done.stdout)
    return time.monotonic() - began


def main(pairs: int) -> None:
    """Print the ratios."""
    job = [sys.executable, "-c", JOB]
    times: dict[str, list[float]] = {"plain": [], "TORCH_TRACE": [], "run": []}
    outputs: set[bytes] = set()
    for number in range(pairs):
        with tempfile.TemporaryDirectory() as folder:
            plain = {**os.environ, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
            traced = {**plain, "TORCH_TRACE": os.path.join(folder, "alone")}
            os.mkdir(traced["TORCH_TRACE"])
            under = [sys.executable, "-m", "tcexplore", "run", "--trace", os.path.join(folder, "run"), "--", *job]
            times["plain"].append(run(job, plain, outputs))
            if not number:
                times["TORCH_TRACE"].append(run(job, traced, outputs))
            times["run"].append(run(under, plain, outputs))
            print("  ".join(f"{name} {values[-1]:.2f} s" for name, values in times.items()), flush=True)
    base = median(times["plain"])
    for name, values in times.items():
        print(f"{name:<12} {median(values):6.2f} s  {median(values) / base:.3f} of plain")
    print("the output is the same" if len(outputs) == 1 else f"{len(outputs)} DIFFERENT outputs")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
