"""Steps of scripts by `check`, against plain runs: `python -m tests.benchmarks.script_steps [NAME…] [--pairs N]`.

Each script of `tests/benchmarks/scripts` runs plainly with torch.compile on and off, and under `check`, N times in
turns: on a host that is slow to launch, one process differs from the next by more than the 5% asked for. The ratios of
their steps are printed with the milliseconds of each process, plain ones by CPU time with `SCRIPT_THREADS=1`, else by
wall time; and how far the losses under `check` are from those of the compiled run. `--overhead` compares the compiled
steps under `check --no-eager-steps` with those of plain runs instead. Environment: `SCRIPT_STEPS`, `SCRIPT_DEVICE`,
`SCRIPT_THREADS`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

SCRIPTS = Path(__file__).with_name("scripts")
NAMES = ("gpt", "vision", "accumulation", "gan", "policy", "generation", "trainer", "ddp")
WARM_UP = 20
"""Steps at the begin of a plain run that do not count."""


class PlainRun(NamedTuple):
    """Seconds and figures of each step."""

    steps: list[float]
    cpu: list[float]
    """CPU time of the process."""
    figures: list[float]

    @property
    def seconds(self) -> float:
        """The median of the warm steps: their CPU time with one thread, which other programs do not change so much."""
        on_one_core = os.environ.get("SCRIPT_THREADS") == "1" and os.environ.get("SCRIPT_DEVICE", "cpu") == "cpu"
        return median((self.cpu if on_one_core else self.steps)[WARM_UP:])


def run(folder: Path, name: str, command: list[str], *, compiled: bool) -> PlainRun:
    """Run a script, and return what its own clock measured."""
    result = folder / "result.json"
    environment = {**os.environ, "SCRIPT_COMPILED": str(int(compiled)), "SCRIPT_RESULT": str(result)}
    done = subprocess.run([*command, f"{name}.py"], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode or not result.exists():
        raise SystemExit(f"{name}: {done.stderr[-2000:] or done.stdout[-2000:]}")
    return PlainRun(**json.loads(result.read_text()))


def check(folder: Path, name: str, *options: str) -> tuple[PlainRun, dict[str, Any]]:
    """Run a script under `check`; return what its clock measured, and the report."""
    report, result = folder / "report.json", folder / "result.json"
    threads = ["--threads", os.environ["SCRIPT_THREADS"]] if os.environ.get("SCRIPT_THREADS") else []
    command = [sys.executable, "-m", "tcexplore", "check", f"{name}.py", "--json", *threads, *options]
    with open(report, "w") as file:
        environment = {**os.environ, "SCRIPT_RESULT": str(result)}
        done = subprocess.run(command, cwd=folder, env=environment, stdout=file, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr[-2000:]}")
    return PlainRun(**json.loads(result.read_text())), json.loads(report.read_text())


def steps_row(folder: Path, name: str, pairs: int) -> Iterator[str]:
    """Yield the ratios of plain runs and of `check`, and the distance of the losses."""
    python = [sys.executable]
    plain, speedups = [], []
    for number in range(pairs):
        order = (False, True) if number % 2 else (True, False)
        sides = {side: run(folder, name, python, compiled=side) for side in order}
        plain.append(sides[False].seconds / sides[True].seconds)
        yield f"plain {plain[-1]:.3f} ({milliseconds(sides[False].seconds, sides[True].seconds)})"
        observed, report = check(folder, name)
        steps = report["steps"] or {}
        if steps.get("speedup") is None:
            yield f"check: no ratio ({report['missing']})"
            continue
        speedups.append(steps["speedup"])
        low, high = steps["ci95"]
        yield (
            f"check {speedups[-1]:.3f} [{low:.2f}, {high:.2f}] {steps['verdict']}"
            f" ({milliseconds(steps['eager_us'] / 1e6, steps['compiled_us'] / 1e6)})"
        )
    if speedups:
        yield f"off by {geometric_median(speedups) / geometric_median(plain) - 1:+.1%}"
    yield f"{len(report['recompiles'])} recompiles, extra {report['extra_compiles']}"
    # Rounding grows in a training, in plain runs as well: eager against compiled is the measure.
    distance = distance_of(observed.figures, sides[True].figures)
    yield f"loss: {distance:.1e} from compiled; eager {distance_of(sides[False].figures, sides[True].figures):.1e}"


def geometric_median(ratios: list[float]) -> float:
    """Return the median of ratios, of an even number the geometric mean of the two in the middle."""
    return math.exp(median(map(math.log, ratios)))


def milliseconds(eager: float, compiled: float) -> str:
    """Return the times of a step in seconds as text in milliseconds."""
    return f"{eager * 1e3:.2f} / {compiled * 1e3:.2f} ms"


def distance_of(figures: list[float], others: list[float]) -> float:
    """Return the largest relative distance of figures."""
    return max(abs(a - b) / max(abs(a), abs(b), 1e-12) for a, b in zip(figures, others, strict=False))


def overhead_row(folder: Path, name: str, pairs: int) -> Iterator[str]:
    """Yield the time of a compiled step under `check --no-eager-steps` over that of a plain run."""
    ratios = []
    for number in range(pairs):
        times: dict[bool, float] = {}
        for observed in (True, False) if number % 2 else (False, True):
            if observed:
                times[observed] = check(folder, name, "--no-eager-steps", "--time-for", "0")[0].seconds
            else:
                times[observed] = run(folder, name, [sys.executable], compiled=True).seconds
        ratios.append(times[True] / times[False])
    yield f"a step under check takes {median(ratios):.3f} of a plain one ({', '.join(f'{r:.3f}' for r in ratios)})"


def main() -> None:
    """Print a row for each script."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--overhead", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        for script in SCRIPTS.glob("*.txt"):
            shutil.copy(script, folder / f"{script.stem}.py")
        for name in given.names:
            row = overhead_row if given.overhead else steps_row
            print(f"{name:<14}", end="", flush=True)
            for part in row(folder, name, given.pairs):
                print(part, end="  ", flush=True)
            print()


if __name__ == "__main__":
    main()
