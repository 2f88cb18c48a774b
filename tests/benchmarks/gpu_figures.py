"""Figures that only a GPU can give: the ratio against Triton's own benchmark, peaks counted by hand, launches saved.

    python -m tests.benchmarks.gpu_figures [--seconds 3] [--only ratios,peaks,launches] [--json FILE]

Each model is timed by tcexplore in a worker, as `check` does, and by `triton.testing.do_bench` in a process of its own
with the same seed. The peaks are counted by hand in the models' docstrings.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.gpu_models import LAUNCH_BOUND, PEAKS, TIMED

SEED = 0
ROOT = Path(__file__).parents[2]

BENCH = """
import json, sys, torch
from triton.testing import do_bench
scope = {"__name__": "model"}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), scope)
torch.manual_seed(SEED)
model, inputs = scope["model"].cuda(), tuple(one.cuda() for one in scope["inputs"])
compiled = torch.compile(model)
with torch.no_grad():
    for _ in range(5):
        compiled(*inputs)
    # In turns, so that a drift of the clock does not fall on one side.
    pairs = [
        [do_bench(lambda: side(*inputs), return_mode="median") for side in (model, compiled)]
        for _ in range(TURNS)
    ]
print(json.dumps(pairs))
"""
TURNS = 5

MODELS: list[str] = []
"""What `--models` asks for."""


def main() -> None:
    """Print every figure, and write all of it with `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="ratios,peaks,launches")
    parser.add_argument("--models", default="", help="of the ratios, separated by commas; all where none is named")
    asked = parser.parse_args()
    MODELS.extend(name for name in asked.models.split(",") if name)
    parts = {"ratios": ratios, "peaks": peaks, "launches": launches}
    found: dict[str, Any] = {}
    for name in asked.only.split(","):
        found[name] = list(parts[name](asked.seconds))
        if asked.json:
            asked.json.write_text(json.dumps(found))


def ratios(seconds: float) -> Iterator[dict[str, Any]]:
    """Eager over compiled by both, with the device's own time and the wall's; do_bench waits for the device only."""
    off = []
    for name, source in TIMED.items():
        if MODELS and name not in MODELS:
            continue
        report, pairs = check(source, seconds), bench(source)
        timing = report["timing"]
        theirs = median(eager / compiled for eager, compiled in pairs)
        device = timing["device_eager_us"] / timing["device_compiled_us"]
        ours = timing["speedup"]
        off.append(abs(ours / theirs - 1))
        print(
            f"{name:<22} do_bench {theirs:.3f}  wall {ours:.3f} ({ours / theirs - 1:+.1%})  "
            f"device {device:.3f} ({device / theirs - 1:+.1%})  {timing['verdict']}  launch-bound {bound(report)}  "
            f"eager {timing['eager_us']:.1f} µs, of it device {timing['device_eager_us']:.1f}; compiled "
            f"{timing['compiled_us']:.1f}, of it {timing['device_compiled_us']:.1f}; do_bench "
            f"{1e3 * median(p[0] for p in pairs):.1f}, {1e3 * median(p[1] for p in pairs):.1f}",
            flush=True,
        )
        yield {"model": name, "do_bench": theirs, "wall": ours, "device": device, "timing": facts(timing)}
    print(f"median deviation from do_bench: {median(off):.1%}", flush=True)


def peaks(seconds: float) -> Iterator[dict[str, Any]]:
    """Bytes at the peak of a call, eager and compiled, against what was counted by hand."""
    for name, (source, options, eager, compiled) in PEAKS.items():
        memory = check(source, 0.0 * seconds, *options)["memory"]
        both = ((memory["eager_peak_bytes"], eager), (memory["compiled_peak_bytes"], compiled))
        said = ", ".join(f"{found} of {known} ({found / known - 1:+.2%})" for found, known in both)
        print(f"{name:<22} {said}  {memory['notes']}", flush=True)
        yield {"model": name, "eager": both[0], "compiled": both[1]}


def launches(seconds: float) -> Iterator[dict[str, Any]]:
    """A model that waits for launches, in two modes: what CUDA graphs save."""
    for mode in ("default", "reduce-overhead"):
        report = check(LAUNCH_BOUND, seconds, "--mode", mode)
        timing, call = report["timing"], report["one_call"]
        print(
            f"{mode:<16} {timing['speedup']:.2f}× {timing['ci95']} {timing['verdict']}  compiled "
            f"{timing['compiled_us']:.1f} µs, device {timing['device_compiled_us']:.1f}  launches {call['launches']} "
            f"for {call['device_works']} works  saved {report['cuda_graphs']['launches_saved_per_call']}  "
            f"launch-bound {bound(report)}  gaps {call['launch_gaps_us']:.1f} µs",
            flush=True,
        )
        yield {"mode": mode, "timing": facts(timing), "call": call, "cuda_graphs": report["cuda_graphs"]}


def bound(report: dict[str, Any]) -> bool:
    """Whether the badge is shown."""
    return any(note.startswith("launch-bound") for note in report["timing"]["notes"])


def facts(timing: dict[str, Any]) -> dict[str, Any]:
    """What is worth keeping."""
    return {name: value for name, value in timing.items() if name != "samples"}


def check(source: str, seconds: float, *options: str) -> dict[str, Any]:
    """The report of one run on the GPU."""
    with tempfile.TemporaryDirectory() as folder:
        file = written(source, folder)
        command = ["-m", "tcexplore", "check", file, "--json", "--device", "cuda", "--time-for", str(seconds)]
        done = subprocess.run(
            [sys.executable, *command, "--seed", str(SEED), *options], capture_output=True, text=True, check=False,
            cwd=ROOT,
        )  # fmt: skip
    if not done.stdout:
        raise SystemExit(f"no report: {done.stderr}")
    report: dict[str, Any] = json.loads(done.stdout)
    if report["status"] != "ok":
        raise SystemExit(f"the run failed: {report['error']}")
    return report


def bench(source: str) -> list[tuple[float, float]]:
    """Milliseconds of eager and compiled, some turns, by `triton.testing.do_bench`."""
    with tempfile.TemporaryDirectory() as folder:
        script = BENCH.replace("SEED", str(SEED)).replace("TURNS", str(TURNS))
        done = subprocess.run(
            [sys.executable, "-c", script, written(source, folder)], capture_output=True, text=True, check=True
        )
    pairs: list[tuple[float, float]] = json.loads(done.stdout.splitlines()[-1])
    return pairs


def written(source: str, folder: str) -> str:
    """A file with a model."""
    file = Path(folder) / "model.py"
    file.write_text(source, encoding="utf-8")
    return str(file)


if __name__ == "__main__":
    main()
