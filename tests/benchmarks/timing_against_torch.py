"""Timing compared with `torch.utils.benchmark`: the ratio of eager to compiled on ten models.

    python -m tests.benchmarks.timing_against_torch [--only NAME,…] [--rounds 1] [--seconds 3] [--threads 1]

Each tool times each model in a separate process with the same number of threads: `tcexplore check --json`, and a script
with two `Timer`s, alternating between eager and compiled three times. Environment variables fix how malloc gets memory,
which can change the time of an op by a factor of three. Rounds alternate between the tools; their medians are compared.
Requirement: the ratios differ by at most 5% at the median model; otherwise the exit status is 1. Ten models take about
five minutes on two quiet cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from tests.benchmarks.timing_models import Model, ten

MAX_DIFFERENCE = 0.05

FIXED_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 31)}
"""Keeps malloc from returning and re-requesting pages for results."""

TORCH_BENCHMARK = """
import importlib.util, json, sys
import torch
from torch.utils.benchmark import Measurement, Timer

file, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
spec = importlib.util.spec_from_file_location("timed", file)
timed = sys.modules["timed"] = importlib.util.module_from_spec(spec)
torch.manual_seed(0)
torch.set_num_threads(threads)
spec.loader.exec_module(timed)
inputs = timed.inputs() if callable(timed.inputs) else timed.inputs
args, kwargs = ((), inputs) if isinstance(inputs, dict) else (tuple(inputs), {})
compiled = torch.compile(timed.model)
with torch.no_grad():
    for _ in range(3):
        timed.model(*args, **kwargs), compiled(*args, **kwargs)
    sides = [
        Timer("call(*args, **kwargs)", globals={"call": call, "args": args, "kwargs": kwargs}, num_threads=threads)
        for call in (timed.model, compiled)
    ]
    rounds = [[side.blocked_autorange(min_run_time=seconds / 6) for side in sides] for _ in range(3)]
print(json.dumps([Measurement.merge(list(side))[0].median * 1e6 for side in zip(*rounds)]))
"""


def main() -> None:
    options = arguments()
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"torch {torch.__version__}, {os.cpu_count()} cores, {options.threads} thread(s), load before {load}")
    print(f"{'model':20} {'tcexplore':>28} {'torch.utils.benchmark':>28} {'differ':>7}")
    began = time.perf_counter()
    with TemporaryDirectory() as folder:
        models = [model for model in ten() if not options.only or model.name in options.only]
        differences = [compare(model, Path(folder) / "model.py", options) for model in models]
    passed = median(differences) <= MAX_DIFFERENCE
    seconds = time.perf_counter() - began
    print(f"difference: median {median(differences):.1%}, maximum {max(differences):.1%}; {seconds:.0f} s")
    print(f"requirement: {MAX_DIFFERENCE:.0%} at the median  {'passed' if passed else 'FAILED'}")
    sys.exit(0 if passed else 1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], help="models, by name")
    parser.add_argument("--rounds", type=int, default=1, help="how often both tools time each model")
    parser.add_argument("--seconds", type=float, default=3.0, help="timing per tool and round")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    return parser.parse_args()


def compare(model: Model, file: Path, options: argparse.Namespace) -> float:
    """Print the line of one model and return the relative difference of the ratios."""
    file.write_text(model.source)
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(time_with_tcexplore(file, options))
        theirs.append(time_with_torch(file, options))
    ratio, reference = median(e / c for e, c in ours), median(e / c for e, c in theirs)
    difference = abs(ratio / reference - 1)
    print(f"{model.name:20} {describe(ours):>28} {describe(theirs):>28} {difference:7.1%}", flush=True)
    return difference


def describe(sides: list[tuple[float, float]]) -> str:
    eager, compiled = (median(side) for side in zip(*sides, strict=True))
    ratio = median(e / c for e, c in sides)
    return f"{eager:.0f} / {compiled:.0f} µs = {ratio:.3f}"


def time_with_tcexplore(file: Path, options: argparse.Namespace) -> tuple[float, float]:
    """Return eager and compiled times by tcexplore in microseconds; compiled follows from the reported speedup."""
    command = ["-m", "tcexplore", "check", str(file), "--json", "--threads", str(options.threads)]
    timing = json.loads(run_python([*command, "--time-for", str(options.seconds)]))["timing"]
    return timing["eager_us"], timing["eager_us"] / timing["speedup"]


def time_with_torch(file: Path, options: argparse.Namespace) -> tuple[float, float]:
    """Return eager and compiled times by `torch.utils.benchmark` in microseconds."""
    eager, compiled = json.loads(
        run_python(["-c", TORCH_BENCHMARK, str(file), str(options.threads), str(options.seconds)])
    )
    return eager, compiled


def run_python(arguments: list[str]) -> str:
    environment = {**os.environ, **FIXED_MALLOC}
    done = subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return done.stdout.splitlines()[-1] if "-c" in arguments else done.stdout


if __name__ == "__main__":
    main()
