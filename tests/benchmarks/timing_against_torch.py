"""Does timing agree with `torch.utils.benchmark`? Ten models, the ratio of eager to compiled by both.

    python -m tests.benchmarks.timing_against_torch [--only NAME,…] [--rounds 1] [--seconds 3] [--threads 1]

Each of the two has a process of its own for each model, with as many threads: `tcexplore check --json` for the one, a
script with two `Timer`s for the other, eager and compiled in three turns, medians of their blocks. Both get memory from
malloc in one way, set from outside: which of glibc's two a process slides into can triple the time of an op. Rounds
are made in turn and the medians over the rounds compared. Must: the ratios differ by 5 % at the median model
or less; exits with 1 where they do not. Ten models take about five minutes on two quiet cores.
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

MOST_APART = 0.05

ONE_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 31)}
"""No result has pages of its own that are new each time."""

THEIRS = """
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
    turns = [[side.blocked_autorange(min_run_time=seconds / 6) for side in sides] for _ in range(3)]
print(json.dumps([Measurement.merge(list(side))[0].median * 1e6 for side in zip(*turns)]))
"""


def main() -> None:
    options = arguments()
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"torch {torch.__version__}, {os.cpu_count()} cores, {options.threads} thread(s), load before {load}")
    print(f"{'model':20} {'tcexplore':>28} {'torch.utils.benchmark':>28} {'apart':>7}")
    began = time.perf_counter()
    with TemporaryDirectory() as folder:
        models = [model for model in ten() if not options.only or model.name in options.only]
        apart = [compared(model, Path(folder) / "model.py", options) for model in models]
    holds = median(apart) <= MOST_APART
    print(f"apart at the median {median(apart):.1%}, at most {max(apart):.1%}; {time.perf_counter() - began:.0f} s")
    print(f"must: {MOST_APART:.0%} at the median  {'holds' if holds else 'FAILS'}")
    sys.exit(0 if holds else 1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda said: said.split(","), default=[], help="models, by name")
    parser.add_argument("--rounds", type=int, default=1, help="times that each model is timed by both")
    parser.add_argument("--seconds", type=float, default=3.0, help="of timing, each")
    parser.add_argument("--threads", type=int, default=1, help="of torch, each")
    return parser.parse_args()


def compared(model: Model, file: Path, options: argparse.Namespace) -> float:
    """How far apart the two find the ratio of one model; prints its line."""
    file.write_text(model.source)
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(checked(file, options))
        theirs.append(timed(file, options))
    found, reference = median(e / c for e, c in ours), median(e / c for e, c in theirs)
    apart = abs(found / reference - 1)
    print(f"{model.name:20} {said(ours):>28} {said(theirs):>28} {apart:7.1%}", flush=True)
    return apart


def said(sides: list[tuple[float, float]]) -> str:
    eager, compiled = (median(side) for side in zip(*sides, strict=True))
    ratio = median(e / c for e, c in sides)
    return f"{eager:.0f} / {compiled:.0f} µs = {ratio:.3f}"


def checked(file: Path, options: argparse.Namespace) -> tuple[float, float]:
    """Eager and compiled by tcexplore, in microseconds; compiled such that their ratio is the speed-up it gives."""
    command = ["-m", "tcexplore", "check", str(file), "--json", "--threads", str(options.threads)]
    timing = json.loads(output([*command, "--time-for", str(options.seconds)]))["timing"]
    return timing["eager_us"], timing["eager_us"] / timing["speedup"]


def timed(file: Path, options: argparse.Namespace) -> tuple[float, float]:
    """Eager and compiled by `torch.utils.benchmark`, in microseconds."""
    eager, compiled = json.loads(output(["-c", THEIRS, str(file), str(options.threads), str(options.seconds)]))
    return eager, compiled


def output(arguments: list[str]) -> str:
    environment = {**os.environ, **ONE_MALLOC}
    done = subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return done.stdout.splitlines()[-1] if "-c" in arguments else done.stdout


if __name__ == "__main__":
    main()
