"""Speedups of `tcexplore check` on the same model in several runs: how much they differ, and what intervals promise.

    python -m tests.benchmarks.timing_processes [--models norm,mlp,...] [--runs 12] [--time-for 3]

Each run is a new `tcexplore check`. Prints for each model the speedups, those of each process with the page faults per
call of eager and compiled, the largest over the smallest, and how many intervals contain the median of the others. The
exit status is 1 if a ratio exceeds 1.15, or less than 95% contain it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

MAX_RATIO, MIN_COVERED = 1.15, 0.95

MODELS = {
    "norm": ("nn.LayerNorm(512)", "F.gelu(self.layers(x)) * self.scale + self.shift", "64, 128, 512", 512),
    "softmax": ("nn.Identity()", "F.softmax(x * self.scale + self.shift, -1)", "32, 128, 512", 512),
    "mlp": (
        "nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256))", "self.layers(x) * self.scale",
        "64, 256", 256,
    ),
    "conv": (
        "nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.SiLU(), nn.Conv2d(16, 16, 3))",
        "self.layers(x).mean() * self.scale", "4, 3, 64, 64", 1,
    ),
    "attention": (
        "nn.Identity()", "F.scaled_dot_product_attention(x * self.scale, x, x + self.shift)", "2, 8, 256, 64", 64,
    ),
    "pointwise": ("nn.Identity()", "(x.sigmoid() * self.scale + x.tanh()).relu() - x.square()", "512, 1024", 1024),
    "reduction": ("nn.Identity()", "((x - x.mean(-1, True)) / x.std(-1, keepdim=True) * self.scale).sum(0)",
                  "1024, 512", 512),
    "small": ("nn.Linear(16, 16)", "self.layers(x).relu() * self.scale + self.shift", "4, 16", 16),
}  # fmt: skip
"""Layers, result, shape of the input, and size of the scale and the shift."""

FILE = """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = {layers}
        self.scale = nn.Parameter(torch.ones({size}))
        self.shift = nn.Parameter(torch.zeros({size}))

    def forward(self, x):
        return {result}


model = Model().eval()
inputs = (torch.randn({shape}),)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--time-for", type=float, default=3.0)
    options = parser.parse_args()
    covered = intervals = 0
    worst = 1.0
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models:
            layers, result, shape, size = MODELS[name]
            file = Path(folder, f"{name}.py")
            file.write_text(FILE.format(layers=layers, result=result, shape=shape, size=size))
            began = time.perf_counter()
            timings = [_timing(file, options.time_for) for _ in range(options.runs)]
            seconds = (time.perf_counter() - began) / options.runs
            speedups = [timing["speedup"] for timing in timings]
            inside = sum(_holds(index, timings) for index in range(len(timings)))
            ratio = max(speedups) / min(speedups)
            print(f"{name}: {ratio:.3f}, {inside} of {len(timings)} intervals, {seconds:.1f} s a run")
            for timing in timings:
                low, high = timing["ci95"]
                rows = ", ".join(
                    f"{row['speedup']:.2f} ({row['eager_page_faults']:.0f}, {row['compiled_page_faults']:.0f})"
                    for row in timing["processes"]
                )
                returned = timing["memory_returned"]
                default = f"; returned {returned['speedup']:.2f}" if returned else ""
                print(f"  {timing['verdict']}, {timing['speedup']:.3f} [{low:.3f}, {high:.3f}] of {rows}{default}")
            sys.stdout.flush()
            covered, intervals, worst = covered + inside, intervals + len(timings), max(worst, ratio)
    print(f"largest over smallest {worst:.3f}, at most {MAX_RATIO}")
    print(f"{covered / intervals:.0%} of the intervals contain the median of the others, at least {MIN_COVERED:.0%}")
    sys.exit(worst > MAX_RATIO or covered < MIN_COVERED * intervals)


def _timing(file: Path, time_for: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "tcexplore", "check", str(file), "--json", "--time-for", str(time_for)]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    timing: dict[str, Any] = json.loads(report)["timing"]
    return timing


def _holds(index: int, timings: list[dict[str, Any]]) -> bool:
    """Return whether the interval of one run contains the median of the others."""
    others = median(timing["speedup"] for other, timing in enumerate(timings) if other != index)
    low, high = timings[index]["ci95"]
    return bool(low <= others <= high)


if __name__ == "__main__":
    main()
