"""Timing checked on this machine with the same function on both sides, and with functions of known ratio.

    python -m tests.benchmarks.timing_truth [--only same,1.05,1.2,2,10] [--controls 200] [--runs 50] [--seconds 1]

In half of the runs of the same function a second process is always busy. Work is one torch operation, repeated on one
pair of tensors, so the true ratio is known except for the loop overhead, which is measured and included. Prints one
line per row and whether it passes; the exit status is 1 if one fails. 400 runs take about ten minutes on two quiet
cores; `--only` selects rows.
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
from tcexplore.timing.timing_run import measure_timing
from tcexplore.timing.workload import Workload

SAME = "same"
RATIOS = (1.05, 1.2, 2.0, 10.0)
PIECES = 40
"""A number of repetitions whose multiples by 1.05, 1.2, 2 and 10 are integers."""

MAX_FALSE = 0.05
MIN_COVERED = 0.93
MIN_DETECTED = 0.95
DETECTED_FROM = 1.2

VALUES = torch.linspace(0, 1, 4096)
OUT = torch.empty_like(VALUES)
"""Shared by both sides: separate tensors would be placed differently in the caches and change the true ratio."""


@dataclass(frozen=True)
class RowResult:
    """The results of one row: shares of runs, and medians over the runs."""

    runs: int
    different: float
    """Share of verdicts `faster` or `slower`."""
    faster: float
    covered: float
    """Share of intervals that contain the true ratio."""
    floor: float
    width: float
    pairs: float
    bias: float


def main() -> None:
    options = arguments()
    torch.set_num_threads(1)
    overhead = loop_overhead()
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"torch {torch.__version__}, {os.cpu_count()} cores, 1 thread, load before {load}, seed {options.seed}")
    print(f"loop overhead: {overhead:.3f} of one operation, included in the true ratio")
    print(f"{'row':30} {'runs':>4} {'differ':>7} {'covered':>7} {'floor':>7} {'width':>7} {'pairs':>5} {'bias':>7}")
    began = time.perf_counter()
    passed = [row for name in options.only for row in rows(name, options, overhead)]
    print(f"{time.perf_counter() - began:.0f} s; {'all rows pass' if all(passed) else 'some rows FAIL'}")
    sys.exit(0 if all(passed) else 1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [SAME, *(f"{ratio:g}" for ratio in RATIOS)]
    parser.add_argument("--only", type=lambda text: text.split(","), default=names, help=f"rows: {','.join(names)}")
    parser.add_argument("--controls", type=int, default=200, help="runs of the same function on both sides")
    parser.add_argument("--runs", type=int, default=50, help="runs of each known ratio")
    parser.add_argument("--seconds", type=float, default=1.0, help="timing of one run")
    parser.add_argument("--seed", type=int, default=0, help="of the order of pairs and of the runs with a busy process")
    return parser.parse_args()


def rows(name: str, options: argparse.Namespace, overhead: float) -> list[bool]:
    """Run and print the rows of one name; return whether each passes."""
    if name == SAME:
        return same(options)
    ratio = float(name)
    truth = (PIECES * ratio + overhead) / (PIECES + overhead)
    seeds = range(options.seed, options.seed + options.runs)
    result = summarize([run(ratio, options.seconds, seed) for seed in seeds], truth)
    must_detect = ratio >= DETECTED_FROM
    requirement = f"covered ≥ {MIN_COVERED:.0%}" + (f", faster ≥ {MIN_DETECTED:.0%}" if must_detect else "")
    passed = result.covered >= MIN_COVERED and (result.faster >= MIN_DETECTED or not must_detect)
    show(f"{ratio:g} times (true {truth:.4f})", result, requirement, passed)
    return [passed]


def same(options: argparse.Namespace) -> list[bool]:
    """Time the same function on both sides; the seed selects the half of the runs with a busy process."""
    busy = [number % 2 == 1 for number in range(options.controls)]
    random.Random(options.seed).shuffle(busy)
    estimates: dict[bool, list[TimingEstimate]] = {True: [], False: []}
    for seed, has_neighbor in enumerate(busy, options.seed):
        with busy_process() if has_neighbor else nullcontext():
            estimates[has_neighbor].append(run(1.0, options.seconds, seed))
    for has_neighbor, row in ((False, "same function"), (True, "same function, busy process")):
        if estimates[has_neighbor]:
            show(row, summarize(estimates[has_neighbor], 1.0), "", passed=None)
    result = summarize(estimates[False] + estimates[True], 1.0)
    passed = result.different <= MAX_FALSE
    show("same function, all", result, f"differ ≤ {MAX_FALSE:.0%}", passed)
    return [passed]


def run(ratio: float, seconds: float, seed: int) -> TimingEstimate:
    """Return the last estimate of one measurement whose eager side does `ratio` times the work."""
    estimates: list[TimingEstimate] = []

    def emit(event: Event) -> None:
        if isinstance(event, TimingEstimate):
            estimates.append(event)

    workload = Workload(
        eager=work(round(PIECES * ratio)), compiled=work(PIECES), calls=1, train=False, device=torch.device("cpu")
    )
    measure_timing(workload, emit, seconds, machine=replace(this_machine(workload, emit), seed=seed))
    return estimates[-1]


def work(repetitions: int, piece: Callable[[], object] = lambda: torch.sin(VALUES, out=OUT)) -> Callable[[], None]:
    """Return a function that repeats a small torch operation on the same tensors."""

    def repeat() -> None:
        for _ in range(repetitions):
            piece()

    return repeat


def loop_overhead(times: int = 400) -> float:
    """Return the time of a loop without its operations, in operations."""

    def fastest(run: Callable[[], None]) -> float:
        durations = []
        for _ in range(times):
            began = time.perf_counter_ns()
            run()
            durations.append(time.perf_counter_ns() - began)
        return float(min(durations))

    many = 20
    clock = fastest(lambda: None)
    return (fastest(work(0)) - clock) / ((fastest(work(many)) - clock) / many)


@contextmanager
def busy_process() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", "while True: sum(range(100_000))"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def summarize(estimates: Sequence[TimingEstimate], truth: float) -> RowResult:
    def share(of: Callable[[TimingEstimate], bool]) -> float:
        return sum(map(of, estimates)) / len(estimates)

    def middle(of: Callable[[TimingEstimate], float]) -> float:
        return sorted(map(of, estimates))[len(estimates) // 2]

    return RowResult(
        runs=len(estimates),
        different=share(lambda e: e.verdict in ("faster", "slower")),
        faster=share(lambda e: e.verdict == "faster"),
        covered=share(lambda e: e.low <= truth <= e.high),
        floor=middle(lambda e: e.noise_floor),
        width=middle(lambda e: e.high / e.low - 1),
        pairs=middle(lambda e: e.pairs),
        bias=middle(lambda e: e.speedup / truth - 1),
    )


def show(row: str, result: RowResult, requirement: str, passed: bool | None) -> None:
    """Print one line; `passed` is None for a row without a requirement."""
    verdict = {None: "", True: "  passed", False: "  FAILED"}[passed]
    print(
        f"{row:30} {result.runs:4} {result.different:7.1%} {result.covered:7.1%} {result.floor:7.2%} "
        f"{result.width:7.2%} {result.pairs:5.0f} {result.bias:+7.2%}  {requirement}{verdict}",
        flush=True,
    )


if __name__ == "__main__":
    main()
