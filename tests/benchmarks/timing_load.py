"""Verdicts beside busy processes, for functions of known ratio, on this machine.

    python -m tests.benchmarks.timing_load [--busy 0,1,2,4] [--ratios 1,1.5,3] [--runs 50] [--seconds 3] [--threads 1]

Each run times a torch operation that one side repeats more often, as `timing_truth` does, while that many other
processes are always busy. With more than one thread, the operation is large enough for torch to split it. Prints a line
for each load and ratio, then the share of false verdicts (of ratio 1: faster or slower; of the others: slower), and the
share of right verdicts of the ratios above 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import replace

import torch

from tcexplore.events import Event, TimingEstimate
from tcexplore.timing.timed_machine import this_machine
from tcexplore.timing.timing_run import measure_timing
from tcexplore.timing.workload import Workload
from tests.benchmarks.timing_truth import busy_process, work

PIECES = {1: 40, 2: 8}
"""Operations of the compiled side, by the number of threads."""

ELEMENTS = {1: 4096, 2: 1 << 18}

MAX_FALSE, MIN_RIGHT = 0.01, 0.95


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", type=_numbers, default=[0.0, 1.0, 2.0, 4.0])
    parser.add_argument("--ratios", type=_numbers, default=[1.0, 1.5, 3.0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=1, choices=(1, 2))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, {os.cpu_count()} cores, {options.threads} threads, {options.seconds:g} s a run")
    false = right = decidable = runs = 0
    for busy in options.busy:
        for ratio in options.ratios:
            began = time.perf_counter()
            last = [_run(ratio, int(busy), options.seconds, seed, options.threads) for seed in range(options.runs)]
            verdicts = [estimate.verdict for estimate in last]
            wrong = verdicts.count("slower") + (verdicts.count("faster") if ratio == 1 else 0)
            covered = sum(estimate.low <= ratio <= estimate.high for estimate in last)
            counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in sorted(set(verdicts)))
            spread = f"{min(e.speedup for e in last):.3f} to {max(e.speedup for e in last):.3f}"
            print(f"{busy:g} busy, ratio {ratio:g}: {counts}; {spread}, covered {covered} of {len(last)}; "
                  f"{time.perf_counter() - began:.0f} s", flush=True)  # fmt: skip
            runs, false = runs + len(last), false + wrong
            if ratio > 1:
                decidable, right = decidable + len(last), right + verdicts.count("faster")
    print(f"false verdicts {false / runs:.1%} (at most {MAX_FALSE:.0%}), right ones {right / max(1, decidable):.1%}")
    sys.exit(false > MAX_FALSE * runs or right < MIN_RIGHT * decidable)


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def _run(ratio: float, busy: int, seconds: float, seed: int, threads: int) -> TimingEstimate:
    """Return the last estimate of a timing beside `busy` processes."""
    estimates: list[TimingEstimate] = []

    def emit(event: Event) -> None:
        if isinstance(event, TimingEstimate):
            estimates.append(event)

    values = torch.linspace(0, 1, ELEMENTS[threads])
    out = torch.empty_like(values)

    def piece() -> object:
        return torch.sin(values, out=out)

    pieces = PIECES[threads]
    workload = Workload(
        eager=work(round(pieces * ratio), piece), compiled=work(pieces, piece), calls=1, train=False,
        device=torch.device("cpu"),
    )  # fmt: skip
    with ExitStack() as stack:
        for _ in range(busy):
            stack.enter_context(busy_process())
        measure_timing(workload, emit, seconds, machine=replace(this_machine(workload, emit), seed=seed))
    return estimates[-1]


if __name__ == "__main__":
    main()
