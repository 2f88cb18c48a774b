"""False alarms and misses of `check --baseline`: `python -m tests.benchmarks.baseline_gate [REPORT.json …]`.

The first report is the baseline; further ones are real reruns of the same file. Without reports, a made-up run is the
baseline. From it, 20 unchanged reruns are made with the noise of a shared machine, and 10 reruns with one regression
and the same noise. Target: no false alarm, 10 found.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tcexplore.cli.baseline import BaselineFigures, baseline_figures, compare, confirm
from tcexplore.report.json_report import report
from tests import fakes

Report = dict[str, Any]
Change = Callable[[Report], None]

RERUNS = 20
SEEDS = 50
"""Repetitions of all reruns with other noise."""

SPEED_NOISE = 0.03
"""Standard deviation of the speedup from run to run, and of its interval's ends."""

LOAD = 0.15
"""Standard deviation of the logarithm of the compile time of all phases together: other work on the machine."""

PHASE_NOISE = 0.1
"""The same for each single phase."""

CPU_NOISE = 0.06
"""The same for the CPU time of the calls that compile, as `baseline_gate_real` measures it under a load of 8."""


def rerun(baseline: Report, noise: random.Random) -> Report:
    """Return a report of the same program with other times."""
    after = copy.deepcopy(baseline)
    timing, load = after["timing"], abs(noise.gauss(0, LOAD))
    if timing:
        factor = 1 + noise.gauss(0, SPEED_NOISE)
        timing["speedup"] *= factor
        lengthen_blocks(after, 1 / factor)
        timing["ci95"] = [end * factor * (1 + noise.gauss(0, SPEED_NOISE / 3)) for end in timing["ci95"]]
        timing["eager_us"] *= 1 + abs(noise.gauss(0, SPEED_NOISE))
    for span in spans(after):
        span["self_s"] *= math.exp(load + noise.gauss(0, PHASE_NOISE))
    after["compile_time"]["seconds"] = sum(span["self_s"] for span in spans(after))
    lengthen_calls(after, math.exp(noise.gauss(0, CPU_NOISE)))
    return after


def reruns(baseline: Report, noise: random.Random) -> tuple[Report, Report]:
    """Return a measurement, and the second one that may confirm it."""
    return rerun(baseline, noise), rerun(baseline, noise)


def lengthen_blocks(changed: Report, factor: float) -> None:
    """Multiply the times of the compiled blocks by a factor."""
    timing, samples = changed["timing"], changed["timing"]["samples"]
    timing["fastest_compiled_us"] = (timing.get("fastest_compiled_us") or 0.0) * factor or None
    samples["compiled_us"] = [us * factor for us in samples["compiled_us"]]


def lengthen_calls(changed: Report, factor: float) -> None:
    """Multiply the CPU time of the calls by a factor."""
    for call in changed["calls"]:
        call["cpu_s"] = call["cpu_s"] and call["cpu_s"] * factor


def spans(changed: Report) -> list[Report]:
    """Return every compile span of a report."""
    pending, every = list(changed["compile_time"]["spans"]), []
    while pending:
        every.append(span := pending.pop())
        pending += span["children"]
    return every


def slower(times: float) -> Change:
    def change(changed: Report) -> None:
        changed["timing"]["speedup"] /= times
        lengthen_blocks(changed, times)
        changed["timing"]["ci95"] = [end / times for end in changed["timing"]["ci95"]]

    return change


def longer(times: float, phase: str = "") -> Change:
    def change(changed: Report) -> None:
        for span in spans(changed):
            span["self_s"] *= times if phase in ("", span["name"]) else 1
        seconds = changed["compile_time"]["seconds"]
        changed["compile_time"]["seconds"] = sum(span["self_s"] for span in spans(changed))
        lengthen_calls(changed, changed["compile_time"]["seconds"] / seconds)

    return change


def kernels(number: int, language: str) -> Change:
    def change(changed: Report) -> None:
        changed["kernels"] += [{"target": changed["config"]["target"], "language": language}] * number

    return change


REGRESSIONS: dict[str, Change] = {
    "a break": lambda r: r["breaks"].append({"file": "m.py", "kind": "print", "user_code": "print(x)", "count": 1}),
    "a break more at a known line": lambda r: r["breaks"].extend(r["breaks"][:1]),
    "a recompile": lambda r: r["recompiles"].append({"graph": "0/9", "limit_hit": False}),
    "a graph more": lambda r: r["graphs"].append(r["graphs"][0]),
    "two kernels more": kernels(2, "cpp"),
    "a library call more": kernels(1, "extern"),
    "slower 1.2 times": slower(1.2),
    "slower 1.5 times": slower(1.5),
    "compile 1.5 times longer": longer(1.5),
    "compile 2 times longer": longer(2),
}


def worse(baseline: BaselineFigures, first: Report, second: Report) -> tuple[str, ...]:
    """Return what the gate finds worse with these two measurements."""
    return confirm(*(compare(baseline, baseline_figures(each)) for each in (first, second))).worse


def main(paths: list[str]) -> None:
    reports = [json.loads(Path(path).read_text()) for path in paths] or [
        json.loads(json.dumps(report(fakes.complete(), None)))
    ]
    baseline, real = reports[0], reports[1:]
    for call in baseline["calls"]:
        call["cpu_s"] = call["cpu_s"] or call["seconds"]
    noise = random.Random(0)
    figures = baseline_figures(baseline)
    real_worse = [worse(figures, *pair) for pair in itertools.pairwise(real)]
    print(f"real reruns: {sum(map(bool, real_worse))} false of {len(real_worse)}")
    print("".join(f"  {line}\n" for lines in real_worse for line in lines), end="")
    alarms, hits = [], dict.fromkeys(REGRESSIONS, 0)
    for _ in range(SEEDS):
        alarms.append(sum(bool(worse(figures, *reruns(baseline, noise))) for _ in range(RERUNS)))
        for name, change in REGRESSIONS.items():
            pair = reruns(baseline, noise)
            for after in pair:
                change(after)
            hits[name] += bool(worse(figures, *pair))
    print(f"first seed: {alarms[0]} false of {RERUNS}; all {SEEDS} seeds: {sum(alarms)} false of {SEEDS * RERUNS}")
    for name, times in hits.items():
        print(f"  {name:<30} found {times} of {SEEDS}")


if __name__ == "__main__":
    main(sys.argv[1:])
