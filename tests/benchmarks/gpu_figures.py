"""Figures that require a GPU: speedup compared with Triton's benchmark, peak memory, and launches saved.

    python -m tests.benchmarks.gpu_figures [--seconds 3] [--only ratios,peaks,launches] [--json FILE]

`tcexplore check` times each model in a worker; `triton.testing.do_bench` times it in a separate process with the same
seed. Peaks are compared with hand counts in `gpu_models`.
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
    # Alternating, so that clock drift affects both sides.
    pairs = [
        [do_bench(lambda: side(*inputs), return_mode="median") for side in (model, compiled)]
        for _ in range(TURNS)
    ]
print(json.dumps(pairs))
"""
TURNS = 5

MODELS: list[str] = []
"""Models selected with `--models`, empty for all."""


def main() -> None:
    """Print every figure, and write all of them with `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="ratios,peaks,launches")
    parser.add_argument("--models", default="", help="models of the ratios, separated by commas; default: all")
    options = parser.parse_args()
    MODELS.extend(name for name in options.models.split(",") if name)
    parts = {"ratios": ratios, "peaks": peaks, "launches": launches}
    figures: dict[str, Any] = {}
    for name in options.only.split(","):
        figures[name] = list(parts[name](options.seconds))
        if options.json:
            options.json.write_text(json.dumps(figures))


def ratios(seconds: float) -> Iterator[dict[str, Any]]:
    """Yield eager over compiled by both benchmarks; do_bench measures device time, tcexplore also wall time."""
    deviations = []
    for name, source in TIMED.items():
        if MODELS and name not in MODELS:
            continue
        report, pairs = check(source, seconds), bench(source)
        timing = report["timing"]
        do_bench = median(eager / compiled for eager, compiled in pairs)
        device = timing["eager_device_span_us"] / timing["compiled_device_span_us"]
        wall = timing["speedup"]
        deviations.append(abs(wall / do_bench - 1))
        print(
            f"{name:<22} do_bench {do_bench:.3f}  wall {wall:.3f} ({wall / do_bench - 1:+.1%})  "
            f"device {device:.3f} ({device / do_bench - 1:+.1%})  {timing['verdict']}  launch-bound {bound(report)}  "
            f"eager {timing['eager_us']:.1f} µs, kernels {timing['eager_kernels_us']:.1f}; compiled "
            f"{timing['compiled_us']:.1f}, kernels {timing['compiled_kernels_us']:.1f}; do_bench "
            f"{1e3 * median(p[0] for p in pairs):.1f}, {1e3 * median(p[1] for p in pairs):.1f}",
            flush=True,
        )
        yield {"model": name, "do_bench": do_bench, "wall": wall, "device": device, "timing": facts(timing)}
    print(f"median deviation from do_bench: {median(deviations):.1%}", flush=True)


def peaks(seconds: float) -> Iterator[dict[str, Any]]:
    """Yield peak bytes of a call, eager and compiled, compared with hand counts."""
    for name, (source, options, eager, compiled) in PEAKS.items():
        memory = check(source, 0.0 * seconds, *options)["memory"]
        both = ((memory["eager_peak_bytes"], eager), (memory["compiled_peak_bytes"], compiled))
        text = ", ".join(f"{measured} of {counted} ({measured / counted - 1:+.2%})" for measured, counted in both)
        print(f"{name:<22} {text}  {memory['notes']}", flush=True)
        yield {"model": name, "eager": both[0], "compiled": both[1]}


def launches(seconds: float) -> Iterator[dict[str, Any]]:
    """Yield the figures of a launch-bound model in two modes: the difference is the saving of CUDA graphs."""
    for mode in ("default", "reduce-overhead"):
        report = check(LAUNCH_BOUND, seconds, "--mode", mode)
        timing, call = report["timing"], report["call_account"]
        print(
            f"{mode:<16} {timing['speedup']:.2f}× {timing['ci95']} {timing['verdict']}  compiled "
            f"{timing['compiled_us']:.1f} µs, kernels {timing['compiled_kernels_us']:.1f}  launches {call['launches']} "
            f"for {call['device_tasks']} tasks  saved {report['cuda_graphs']['launches_saved_per_call']}  "
            f"launch-bound {bound(report)}  gaps {call['launch_gaps_us']:.1f} µs",
            flush=True,
        )
        yield {"mode": mode, "timing": facts(timing), "call": call, "cuda_graphs": report["cuda_graphs"]}


def bound(report: dict[str, Any]) -> bool:
    """Return whether the run is marked as launch-bound."""
    return bool(report["timing"]["launch_bound"])


def facts(timing: dict[str, Any]) -> dict[str, Any]:
    """Return the timing without its samples."""
    return {name: value for name, value in timing.items() if name != "samples"}


def check(source: str, seconds: float, *options: str) -> dict[str, Any]:
    """Return the report of one run on the GPU."""
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
    """Return pairs of eager and compiled milliseconds from `triton.testing.do_bench`."""
    with tempfile.TemporaryDirectory() as folder:
        script = BENCH.replace("SEED", str(SEED)).replace("TURNS", str(TURNS))
        done = subprocess.run(
            [sys.executable, "-c", script, written(source, folder)], capture_output=True, text=True, check=True
        )
    pairs: list[tuple[float, float]] = json.loads(done.stdout.splitlines()[-1])
    return pairs


def written(source: str, folder: str, name: str = "model") -> str:
    """Write a model file and return its path."""
    file = Path(folder) / f"{name}.py"
    file.write_text(source, encoding="utf-8")
    return str(file)


if __name__ == "__main__":
    main()
