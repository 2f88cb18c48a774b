"""Does timing tell the truth on this machine? The same function twice, and functions of known ratio, on the real clock.

    python -m tests.benchmarks.timing_truth [--only same,1.05,1.2,2,10] [--controls 200] [--runs 50] [--seconds 1]

Half of the runs of the same function have a busy neighbor: a second process that never pauses. Work is one torch
operation repeated on one pair of tensors, so the true ratio of two repetitions is known, but for what repeating itself
takes: that is timed, and counted into the truth. Prints one line per row and whether it holds; exits with 1 where one
does not. 400 runs take about ten minutes on two quiet cores; `--only` takes one row, or a few.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import torch

from tcexplore.events import Event, TimingEstimate
from tcexplore.timing.timed_machine import this_machine
from tcexplore.timing.timing_run import measure_timing_on
from tcexplore.timing.workload import Workload

SAME = "same"
RATIOS = (1.05, 1.2, 2.0, 10.0)
PIECES = 40
"""Repetitions that 1.05, 1.2, 2 and 10 times as many are whole numbers of."""

MOST_CALLED = 0.05
FEWEST_HELD = 0.93
FEWEST_FOUND = 0.95
FOUND_FROM = 1.2

VALUES = torch.linspace(0, 1, 4096)
OUT = torch.empty_like(VALUES)
"""Shared by both sides: tensors of their own would lie differently in the caches, and the true ratio be unknown."""


@dataclass(frozen=True)
class Found:
    """What the runs of one row came to: the shares called faster or slower, called faster, and whose interval held the
    truth; noise floor, width of the interval, pairs and deviation of the speed-up from the truth at the median."""

    runs: int
    called: float
    faster: float
    held: float
    floor: float
    width: float
    pairs: float
    bias: float


def main() -> None:
    options = arguments()
    torch.set_num_threads(1)
    overhead = repeating()
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"torch {torch.__version__}, {os.cpu_count()} cores, 1 thread, load before {load}, seed {options.seed}")
    print(f"repeating takes {overhead:.3f} of one operation, and is counted into the true ratio")
    print(
        f"{'what':30} {'runs':>4} {'called':>7} {'held':>7} {'floor':>7} {'width':>7} {'pairs':>5} {'off by':>7}  must"
    )
    began = time.perf_counter()
    holds = [row for name in options.only for row in rows(name, options, overhead)]
    print(f"{time.perf_counter() - began:.0f} s; {'every row holds' if all(holds) else 'NOT every row holds'}")
    sys.exit(0 if all(holds) else 1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [SAME, *(f"{ratio:g}" for ratio in RATIOS)]
    parser.add_argument("--only", type=lambda said: said.split(","), default=names, help=f"rows: {','.join(names)}")
    parser.add_argument("--controls", type=int, default=200, help="runs of the same function on both sides")
    parser.add_argument("--runs", type=int, default=50, help="runs of each known ratio")
    parser.add_argument("--seconds", type=float, default=1.0, help="timing of one run")
    parser.add_argument("--seed", type=int, default=0, help="of the order of pairs and of the neighbor's runs")
    return parser.parse_args()


def rows(name: str, options: argparse.Namespace, overhead: float) -> list[bool]:
    """Make and print the rows of one name; whether each holds what it must."""
    if name == SAME:
        return same(options)
    ratio = float(name)
    truth = (PIECES * ratio + overhead) / (PIECES + overhead)
    seeds = range(options.seed, options.seed + options.runs)
    found = summed([run(ratio, options.seconds, seed) for seed in seeds], truth)
    must_find = ratio >= FOUND_FROM
    said = f"held ≥ {FEWEST_HELD:.0%}" + (f", called faster ≥ {FEWEST_FOUND:.0%}" if must_find else "")
    holds = found.held >= FEWEST_HELD and (found.faster >= FEWEST_FOUND or not must_find)
    show(f"{ratio:g} times (true {truth:.4f})", found, said, holds)
    return [holds]


def same(options: argparse.Namespace) -> list[bool]:
    """The same function on both sides; which half of the runs has a neighbor is drawn by the seed."""
    busy = [number % 2 == 1 for number in range(options.controls)]
    random.Random(options.seed).shuffle(busy)
    estimates: dict[bool, list[TimingEstimate]] = {True: [], False: []}
    for seed, neighbor in enumerate(busy, options.seed):
        with busy_neighbour() if neighbor else nullcontext():
            estimates[neighbor].append(run(1.0, options.seconds, seed))
    for neighbor, what in ((False, "same function"), (True, "same function, busy neighbor")):
        if estimates[neighbor]:
            show(what, summed(estimates[neighbor], 1.0), "", holds=None)
    found = summed(estimates[False] + estimates[True], 1.0)
    holds = found.called <= MOST_CALLED
    show("same function, all", found, f"called ≤ {MOST_CALLED:.0%}", holds)
    return [holds]


def run(ratio: float, seconds: float, seed: int) -> TimingEstimate:
    """The last estimate of one measurement whose eager side does `ratio` times the work."""
    estimates: list[TimingEstimate] = []

    def emit(event: Event) -> None:
        if isinstance(event, TimingEstimate):
            estimates.append(event)

    workload = Workload(
        eager=work(round(PIECES * ratio)), compiled=work(PIECES), calls=1, train=False, device=torch.device("cpu")
    )
    measure_timing_on(replace(this_machine(workload, emit), seed=seed), workload, emit, seconds)
    return estimates[-1]


def work(repetitions: int, piece: Callable[[], object] = lambda: torch.sin(VALUES, out=OUT)) -> Callable[[], None]:
    """The same small torch operation on the same tensors so many times."""

    def repeat() -> None:
        for _ in range(repetitions):
            piece()

    return repeat


def repeating(times: int = 400) -> float:
    """What a call that repeats something takes before and after its repetitions, in operations."""

    def fastest(run: Callable[[], None]) -> float:
        took = []
        for _ in range(times):
            began = time.perf_counter_ns()
            run()
            took.append(time.perf_counter_ns() - began)
        return float(min(took))

    many = 20
    clock = fastest(lambda: None)
    return (fastest(work(0)) - clock) / ((fastest(work(many)) - clock) / many)


@contextmanager
def busy_neighbour() -> Iterator[None]:
    neighbor = subprocess.Popen([sys.executable, "-c", "while True: sum(range(100_000))"])
    try:
        yield
    finally:
        neighbor.kill()
        neighbor.wait()


def summed(estimates: Sequence[TimingEstimate], truth: float) -> Found:
    def share(of: Callable[[TimingEstimate], bool]) -> float:
        return sum(map(of, estimates)) / len(estimates)

    def middle(of: Callable[[TimingEstimate], float]) -> float:
        return sorted(map(of, estimates))[len(estimates) // 2]

    return Found(
        runs=len(estimates),
        called=share(lambda e: e.verdict in ("faster", "slower")),
        faster=share(lambda e: e.verdict == "faster"),
        held=share(lambda e: e.low <= truth <= e.high),
        floor=middle(lambda e: e.noise_floor),
        width=middle(lambda e: e.high / e.low - 1),
        pairs=middle(lambda e: e.pairs),
        bias=middle(lambda e: e.speedup / truth - 1),
    )


def show(what: str, found: Found, must: str, holds: bool | None) -> None:
    """One line; `holds` is None where nothing is asked of the row."""
    verdict = {None: "", True: "  holds", False: "  FAILS"}[holds]
    print(
        f"{what:30} {found.runs:4} {found.called:7.1%} {found.held:7.1%} {found.floor:7.2%} {found.width:7.2%} "
        f"{found.pairs:5.0f} {found.bias:+7.2%}  {must}{verdict}",
        flush=True,
    )


if __name__ == "__main__":
    main()
