"""Does timing tell the truth on this machine? The same function twice, and functions of known ratio, on the real clock.

    python -m tests.benchmarks.timing_truth [--controls 200] [--runs 50] [--seconds 0.5] [--seed 0]

Half of the runs of the same function have a busy neighbour: a second process that never pauses. Work is a torch
operation repeated, so the true ratio of two repetitions is known. Prints one line per row, and what it must reach.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from tcexplore.events import Event, TimingEstimate
from tcexplore.timing.machine import this_machine
from tcexplore.timing.measure import measure_on
from tcexplore.timing.workload import Workload

RATIOS = (1.05, 1.2, 2.0, 10.0)
PIECES = 20
"""Repetitions that 1.05, 1.2, 2 and 10 times as many are whole numbers of."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--controls", type=int, default=200, help="runs of the same function on both sides")
    parser.add_argument("--runs", type=int, default=50, help="runs of each known ratio")
    parser.add_argument("--seconds", type=float, default=0.5, help="timing of one run")
    parser.add_argument("--seed", type=int, default=0, help="of the order of pairs and of the neighbour's runs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seeds = iter(range(options.seed, sys.maxsize))
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"torch {torch.__version__}, {os.cpu_count()} cores, 1 thread, load before {load}, seed {options.seed}")
    print(f"{'what':30} {'runs':>5} {'called':>8} {'held':>7} {'floor':>7} {'width':>7}  must")
    same(options.controls, options.seconds, options.seed, seeds)
    for ratio in RATIOS:
        estimates = [run(ratio, options.seconds, next(seeds)) for _ in range(options.runs)]
        must = "held ≥ 93 %" + (", called ≥ 95 %" if ratio >= 1.2 else "")
        row(f"{ratio:g} times", ratio, estimates, must)


def same(runs: int, seconds: float, seed: int, seeds: Iterator[int]) -> None:
    """The same function on both sides; which half of the runs has a neighbour is drawn by `seed`."""
    busy = [True] * (runs // 2) + [False] * (runs - runs // 2)
    random.Random(seed).shuffle(busy)
    found: dict[bool, list[TimingEstimate]] = {True: [], False: []}
    for neighbour in busy:
        if neighbour:
            with busy_neighbour():
                found[True].append(run(1.0, seconds, next(seeds)))
        else:
            found[False].append(run(1.0, seconds, next(seeds)))
    row("same function", 1.0, found[False], "")
    row("same function, busy neighbour", 1.0, found[True], "")
    row("same function, all", 1.0, found[False] + found[True], "called ≤ 5 %")


def run(ratio: float, seconds: float, seed: int) -> TimingEstimate:
    """The last estimate of one measurement whose eager side does `ratio` times the work."""
    estimates: list[TimingEstimate] = []

    def emit(event: Event) -> None:
        if isinstance(event, TimingEstimate):
            estimates.append(event)

    workload = Workload(
        eager=work(round(PIECES * ratio)), compiled=work(PIECES), calls=1, train=False, device=torch.device("cpu")
    )
    measure_on(replace(this_machine(workload, emit), seed=seed), workload, emit, seconds)
    return estimates[-1]


VALUES = torch.linspace(0, 1, 4096)
OUT = torch.empty_like(VALUES)
"""Shared by both sides: tensors of their own would lie differently in the caches, and the true ratio be unknown."""


def work(repetitions: int) -> Callable[[], None]:
    """The same small torch operation on the same tensors so many times."""

    def repeat() -> None:
        for _ in range(repetitions):
            torch.sin(VALUES, out=OUT)

    return repeat


@contextmanager
def busy_neighbour() -> Iterator[None]:
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: sum(range(100_000))"])
    try:
        yield
    finally:
        neighbour.kill()
        neighbour.wait()


def row(what: str, ratio: float, estimates: list[TimingEstimate], must: str) -> None:
    """How many runs were called faster or slower, how many intervals held the truth, floor and width at the median."""
    if not estimates:
        return
    called = sum(e.verdict in ("faster", "slower") for e in estimates) / len(estimates)
    held = sum(e.low <= ratio <= e.high for e in estimates) / len(estimates)
    floor = sorted(e.noise_floor for e in estimates)[len(estimates) // 2]
    width = sorted(e.high / e.low - 1 for e in estimates)[len(estimates) // 2]
    print(f"{what:30} {len(estimates):5} {called:8.1%} {held:7.1%} {floor:7.1%} {width:7.1%}  {must}", flush=True)


if __name__ == "__main__":
    main()
