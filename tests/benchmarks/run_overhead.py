"""Time of a job under `tcexplore run` over its time without: `python -m tests.benchmarks.run_overhead [PAIRS]`.

The job compiles and trains a small model. It runs plainly, with TORCH_TRACE alone, and under `tcexplore run`, in turns.
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
    step(torch.randn(64, 256)).sum().backward()
"""


def seconds(command: Sequence[str], environment: dict[str, str]) -> float:
    """Return how long a command takes."""
    began = time.monotonic()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def main(pairs: int) -> None:
    """Print the ratios."""
    job = [sys.executable, "-c", JOB]
    times: dict[str, list[float]] = {"plain": [], "TORCH_TRACE": [], "run": []}
    for _ in range(pairs):
        with tempfile.TemporaryDirectory() as folder:
            plain = {**os.environ, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
            traced = {**plain, "TORCH_TRACE": os.path.join(folder, "alone")}
            os.mkdir(traced["TORCH_TRACE"])
            run = [sys.executable, "-m", "tcexplore", "run", "--trace", os.path.join(folder, "run"), "--", *job]
            times["plain"].append(seconds(job, plain))
            times["TORCH_TRACE"].append(seconds(job, traced))
            times["run"].append(seconds(run, plain))
    base = median(times["plain"])
    for name, values in times.items():
        print(f"{name:<12} {median(values):6.2f} s  {median(values) / base:.3f} of plain")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
