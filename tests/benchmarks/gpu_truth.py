"""Ratios against interleaved plain scripts, and shares of peaks, on the GPU of this machine.

    python -m tests.benchmarks.gpu_truth [--seconds 3] [--only launch,device,peaks] [--json FILE]

A plain script times blocks of eager and compiled calls in turn, in a process of its own, before and after each `check`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

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

PARALLEL = 3
"""Runs at the same time where only shares of peaks count."""


def main() -> None:
    """Print every figure, and write all of them with `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", default="peaks,launch,device")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    parts = {
        "peaks": lambda: shares(options.seconds),
        "launch": lambda: ratios(LAUNCH_BOUND_MODELS, options.seconds, 2),
        "device": lambda: ratios({name: TIMED[name] for name in DEVICE_BOUND}, options.seconds, 2),
    }
    figures: dict[str, Any] = {}
    for name in options.only.split(","):
        figures[name] = []
        for row in parts[name]():
            figures[name].append(row)
            if options.json:
                options.json.write_text(json.dumps(figures))


def ratios(models: Mapping[str, str], seconds: float, scripts: int) -> Iterator[dict[str, Any]]:
    """Yield the ratio by `check` and by plain scripts around it."""
    for name, source in models.items():
        plain = [script(source, seconds)]
        report = check(source, seconds)
        plain += [script(source, seconds) for _ in range(scripts - 1)]
        timing, effect = report["timing"], report["profile_effect"]
        low, high = timing["ci95"]
        print(
            f"{name:<20} check {timing['speedup']:.3f} [{low:.3f}, {high:.3f}]  µs {timing['eager_us']:.1f}/"
            f"{timing['compiled_us']:.1f}  kernels {timing['eager_kernels_us']:.1f}/"
            f"{timing['compiled_kernels_us']:.1f}  span {timing['eager_device_span_us']:.1f}/"
            f"{timing['compiled_device_span_us']:.1f}  launch-bound {timing['launch_bound']}  {effect}"
        )
        for ms, *of_length in zip(BLOCKS_MS, *plain, strict=True):
            truth = median(ratio for ratio, *_ in of_length)
            print(
                f"  plain, {ms:>3} ms: {', '.join(f'{ratio:.3f}' for ratio, *_ in of_length)} "
                f"({timing['speedup'] / truth - 1:+.1%}, {'in' if low <= truth <= high else 'OUT'})  "
                f"µs {', '.join(f'{eager:.1f}/{compiled:.1f}' for _, eager, compiled in of_length)}",
                flush=True,
            )
        yield {"model": name, "plain": plain, "timing": facts(timing), "profile_effect": effect}


def script(source: str, seconds: float) -> list[tuple[float, float, float]]:
    """Return the median ratio of the pairs of a plain script and the median microseconds of both sides, by length."""
    with tempfile.TemporaryDirectory() as folder:
        text = PLAIN.replace("SEED", str(SEED)).replace("SECONDS", str(seconds)).replace("BLOCKS_MS", str(BLOCKS_MS))
        done = subprocess.run(
            [sys.executable, "-c", text, written(source, folder)], capture_output=True, text=True, check=True
        )
    return [
        (median(a / b for a, b in pairs), *(median(side) for side in zip(*pairs, strict=True)))
        for pairs in json.loads(done.stdout.splitlines()[-1])
    ]


def shares(seconds: float) -> Iterator[dict[str, Any]]:
    """Yield the shares of a peak of each kernel of the models of every dtype."""
    with ThreadPoolExecutor(PARALLEL) as pool:
        runs = {name: pool.submit(check, source, seconds / 10) for name, (source, _) in ARITHMETIC.items()}
    for name, run in runs.items():
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
