"""Regional compilation of a model with eight layers: the study's ratios against a measurement by hand.

`python -m tests.benchmarks.regional_compile [blocks] [nested]`

By hand: for each row a new Python process with an empty cache folder, a plain script, and no part of tcexplore. Both
sides give the ratio of the first calls, and of the times of a warm call, over those of the whole model.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MODEL = """\
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width=128, heads=4):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(mixed)
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, width=128, layers=8):
        super().__init__()
        self.embed = nn.Embedding(1000, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


torch.manual_seed(0)
model = Model().eval()
inputs = (torch.randint(0, 1000, (4, 64)),)
"""

BY_HAND = """\
import json, sys, time
import torch
from model import Layer, inputs, model

def seconds(function):
    start = time.perf_counter()
    function(*inputs)
    return time.perf_counter() - start

with torch.no_grad():
    model(*inputs)
    if sys.argv[1] == "nested":
        Layer.forward = torch.compiler.nested_compile_region(Layer.forward)
    if sys.argv[1] == "blocks":
        compiled = model
        for layer in model.layers:
            layer.compile(dynamic=False)
    else:
        compiled = torch.compile(model, dynamic=False)
    first = seconds(compiled)
    for _ in range(20):
        compiled(*inputs)
    warm = [seconds(compiled) for _ in range(200)]
print(json.dumps({"first": first, "warm": sorted(warm)[len(warm) // 2]}))
"""

ROUNDS = 3
"""Studies and processes by hand, in turn; the medians of their ratios count."""


def by_hand(folder: Path, row: str) -> dict[str, float]:
    caches = tempfile.mkdtemp(dir=folder)
    script = folder / "by_hand.py"
    script.write_text(BY_HAND)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TORCHINDUCTOR_CACHE_DIR": caches}
    done = subprocess.run(
        [sys.executable, str(script), row], stdout=subprocess.PIPE, text=True, check=True, env=environment, cwd=folder
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def by_study(model: Path, rows: list[str]) -> list[dict[str, Any]]:
    command = [
        sys.executable, "-m", "tcexplore", "modes", str(model), "--backends", "inductor", "--modes", "default",
        "--dynamic", "false", "--regions", ",".join(("whole", *rows)), "--guard-filters", "none",
        "--nested-graph-breaks", "false", "--time-for", "1", "--json",
    ]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    regional: list[dict[str, Any]] = json.loads(done.stdout)["regional"]
    return regional


def measure(model: Path, rows: list[str]) -> dict[str, dict[str, float]]:
    """Return the ratios of each row, by the study and by hand."""
    studied = {row["regions"]: row for row in by_study(model, rows)}
    hand = {row: by_hand(model.parent, row) for row in ("whole", *rows)}
    ratios = {}
    for row in rows:
        mine = studied[row]
        print(
            f"{row}: study {mine['whole_cold_s']:.2f} s / {mine['cold_s']:.2f} s, by hand {hand['whole']}, {hand[row]}"
        )
        ratios[row] = {
            "study cold": mine["cold_ratio"], "by hand cold": hand["whole"]["first"] / hand[row]["first"],
            "study steady": mine["steady_ratio"], "by hand steady": hand["whole"]["warm"] / hand[row]["warm"],
        }  # fmt: skip
    return ratios


def main() -> None:
    rows = sys.argv[1:] or ["blocks"]
    with tempfile.TemporaryDirectory() as name:
        model = Path(name) / "model.py"
        model.write_text(MODEL)
        rounds = [measure(model, rows) for _ in range(ROUNDS)]
    print(f"{'row':8}  {'ratio':6}  {'study':>7}  {'by hand':>7}  study / by hand")
    for row in rows:
        medians = {key: statistics.median(ratios[row][key] for ratios in rounds) for key in rounds[0][row]}
        for ratio in ("cold", "steady"):
            mine, plain = medians[f"study {ratio}"], medians[f"by hand {ratio}"]
            print(f"{row:8}  {ratio:6}  {mine:7.3f}  {plain:7.3f}  {mine / plain:.3f}")


if __name__ == "__main__":
    main()
