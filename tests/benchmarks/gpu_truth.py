"""Ratios against interleaved plain scripts, and shares of peaks, on the GPU of this machine.

    python -m tests.benchmarks.gpu_truth [--seconds 3] [--scripts 4] [--runs 1] [--only launch,device,peaks]
        [--models PART]

A plain script times blocks of eager and compiled calls in turn, in a process of its own. All scripts and runs compile
at the same time; then each is timed alone, in turns: the ratio of a launch-bound model depends on how fast the host is
at the time (0.77 to 0.87 within one process).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from tcexplore import events as ev
from tcexplore.report.json_report import timing_fields
from tcexplore.session import Snapshot
from tcexplore.studies.runs import Runs, StudyRun, has_ended
from tcexplore.supervisor import Supervisor
from tests.benchmarks.gpu_figures import SEED, check, facts, written
from tests.benchmarks.gpu_models import ARITHMETIC, DEVICE_BOUND, LAUNCH_BOUND_MODELS, TIMED

PLAIN = """
import json, sys, time, torch
scope = {"__name__": "model"}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), scope)
torch.manual_seed(SEED)
model, inputs = scope["model"].cuda(), tuple(one.cuda() for one in scope["inputs"])
compiled = torch.compile(model)

def block(function, units):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(units):
        function(*inputs)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / units * 1e6

with torch.no_grad():
    for function in (compiled, model):
        function(*inputs)
    print("ready", flush=True)
    sys.stdin.readline()
    for function in (compiled, model):
        for _ in range(10):
            function(*inputs)
    unit_us = [block(function, 20) for function in (model, compiled)]
    lengths_us = [ms * 1e3 for ms in BLOCKS_MS]
    pairs, ends = [[] for _ in lengths_us], time.perf_counter() + SECONDS * len(lengths_us)
    while time.perf_counter() < ends:
        for of_length, length_us in zip(pairs, lengths_us):
            units = [max(1, round(length_us / us)) for us in unit_us]
            of_length.append((block(model, units[0]), block(compiled, units[1])))
print(json.dumps(pairs))
"""

BLOCKS_MS = 10, 40, 160
"""Lengths of the blocks of a plain script. At the start of a block the device waits for the first launch."""

AS_LONG = BLOCKS_MS.index(40)
"""The length of the blocks of a run."""

PARALLEL = 5
"""Runs at the same time where only shares of peaks count."""

LIMIT_S = 240.0


def main() -> None:
    """Print every figure, and write all of them with `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each script, and --time-for of each run")
    parser.add_argument("--scripts", type=int, default=4, help="plain scripts of each model")
    parser.add_argument("--runs", type=int, default=1, help="runs of each model")
    parser.add_argument("--only", default="peaks,launch,device")
    parser.add_argument("--models", default="", metavar="PART", help="only models whose name has this part")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures: dict[str, Any] = {}

    def note(part: str, row: dict[str, Any]) -> None:
        figures.setdefault(part, []).append(row)
        if options.json:
            options.json.write_text(json.dumps(figures))

    async def compare(part: str, models: Mapping[str, str]) -> None:
        async for rows in ratios(models, options.seconds, options.scripts, options.runs):
            for row in rows:
                note(part, row)

    for part in options.only.split(","):
        if part == "peaks":
            for row in shares(options.seconds, options.models):
                note(part, row)
        else:
            models = LAUNCH_BOUND_MODELS if part == "launch" else {name: TIMED[name] for name in DEVICE_BOUND}
            asyncio.run(compare(part, {name: text for name, text in models.items() if options.models in name}))


async def ratios(
    models: Mapping[str, str], seconds: float, scripts: int, runs: int
) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield for each model the ratios of its runs, which are like those of `check`, and of the scripts between them."""
    with tempfile.TemporaryDirectory() as folder:
        files = {
            name: written(source, folder, f"model_{number}") for number, (name, source) in enumerate(models.items())
        }
        each_s = seconds / len(BLOCKS_MS)
        plain = {name: [PlainScript(file, each_s) for _ in range(scripts)] for name, file in files.items()}
        async with Runs(partial(Supervisor, once=True)) as study:
            held = {
                name: [await study.begin(job(file, seconds), hold=True) for _ in range(runs)]
                for name, file in files.items()
            }
            for run in (run for of_model in held.values() for run in of_model):
                await study.wait(run, lambda now: now.phase == "timing", LIMIT_S)
            for script in (script for of_model in plain.values() for script in of_model):
                script.wait()
            for name in models:
                truth, snapshots = [], []
                for number, run in enumerate(held[name]):
                    truth += [
                        script.measure()
                        for script in plain[name][scripts * number // (runs + 1) : scripts * (number + 1) // (runs + 1)]
                    ]
                    snapshots.append(await timed(study, run))
                truth += [script.measure() for script in plain[name][scripts * runs // (runs + 1) :]]
                yield [row(name, snapshot, truth) for snapshot in snapshots]


def job(file: str, seconds: float) -> ev.Job:
    """Return the job of `check --device cuda`."""
    config = ev.Config(device="cuda", seed=SEED)
    return ev.Job(run=1, file=file, source=Path(file).read_text(), config=config, time_for=seconds)


async def timed(runs: Runs, run: StudyRun) -> Snapshot:
    """Let a run time its program, and return it at its end."""
    run.resume()
    await runs.wait(run, has_ended, LIMIT_S)
    snapshot = run.snapshot
    runs.release(run)
    return snapshot


def row(name: str, run: Snapshot, plain: list[list[tuple[float, float, float]]]) -> dict[str, Any]:
    """Print and return the figures of one model."""
    timing = timing_fields(run)
    if timing is None:
        print(f"{name:<20} not timed: {run.failure or run.timing_skipped}")
        return {"model": name, "plain": plain}
    low, high = timing["ci95"]
    kernels, spans = (
        [timing[f"{side}_{what}_us"] for side in ("eager", "compiled")] for what in ("kernels", "device_span")
    )
    logs = [math.log(of_length[AS_LONG][0]) for of_length in plain]
    truth = math.exp(median(logs))
    print(
        f"{name:<20} check {timing['speedup']:.3f} [{low:.3f}, {high:.3f}]  plain {truth:.3f} "
        f"({timing['speedup'] / truth - 1:+.1%}, {'in' if low <= truth <= high else 'OUT'})  "
        f"µs {timing['eager_us']:.1f}/{timing['compiled_us']:.1f}  kernels {kernels}  span {spans}  "
        f"launch-bound {timing['launch_bound']}  {run.profile_effect}"
    )
    processes = [
        f"{one['speedup']:.3f} ({one['eager_us']:.0f}/{one['compiled_us']:.0f})" for one in timing["processes"]
    ]
    print(f"  processes: {', '.join(processes)}  {timing['notes']}")
    print(f"  missing: {[f'{one.fact}: {one.reason}' for one in run.missing_facts]}")
    for ms, *of_length in zip(BLOCKS_MS, *plain, strict=True):
        print(
            f"  plain, {ms:>3} ms: {', '.join(f'{ratio:.3f}' for ratio, *_ in of_length)}  "
            f"µs {', '.join(f'{eager:.0f}/{compiled:.0f}' for _, eager, compiled in of_length)}",
            flush=True,
        )
    effect = None if run.profile_effect is None else asdict(run.profile_effect)
    return {"model": name, "plain": plain, "timing": facts(timing), "profile_effect": effect}


class PlainScript:
    """A plain script that has compiled a model, and waits for its turn."""

    def __init__(self, file: str, seconds: float) -> None:
        text = PLAIN.replace("SEED", str(SEED)).replace("SECONDS", str(seconds)).replace("BLOCKS_MS", str(BLOCKS_MS))
        environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", text, file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def wait(self) -> None:
        """Wait until it has compiled the model."""
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise SystemExit("a plain script failed")

    def measure(self) -> list[tuple[float, float, float]]:
        """Return the median ratio of the pairs and the median microseconds of both sides, by length."""
        answer, _ = self._process.communicate("\n")
        return [
            (median(a / b for a, b in pairs), *(median(side) for side in zip(*pairs, strict=True)))
            for pairs in json.loads(answer.splitlines()[-1])
        ]


def shares(seconds: float, part: str) -> Iterator[dict[str, Any]]:
    """Yield the shares of a peak of each kernel of the models of every dtype whose name has this part."""
    pool = ThreadPoolExecutor(PARALLEL)
    models = {name: source for name, (source, _) in ARITHMETIC.items() if part in name}
    runs = {pool.submit(check, source, seconds / 10): name for name, source in models.items()}
    for run in as_completed(runs):
        name = runs[run]
        try:
            report = run.result()
        except SystemExit as error:
            print(f"{name:<30} {error}")
            continue
        for kernel in report["kernels"]:
            at = kernel["measured"] or {}
            print(
                f"{name:<30} {kernel['name']:<32} expected {ARITHMETIC[name][1]}  ran {at.get('arithmetic')}  "
                f"compute {at.get('compute_peak_share')} ({at.get('no_compute_peak_share')})  "
                f"memory {at.get('memory_peak_share')} ({at.get('no_memory_peak_share')})",
                flush=True,
            )
            yield {"model": name, "kernel": kernel["name"], "flops": kernel["flops"], "dtypes": kernel["dtypes"],
                   "source": kernel["source"][:300], **at}  # fmt: skip


if __name__ == "__main__":
    main()
