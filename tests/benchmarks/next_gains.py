"""`python -m tests.benchmarks.next_gains [PROGRAM…]`: is the gain of each next step within the stated interval?

For each program, `tcexplore next` tries its steps. Then each step is applied by hand: a plain script without tcexplore
makes both versions, and times them in turns, in three processes; for compile times it compiles both in new processes
with empty caches. The benchmark prints the stated interval and the median by hand. Graph breaks are removed by hand.
`--results FILE` adds to the results of earlier calls, so that a slow machine can take one program at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

PROCESSES = 3
SECONDS = 3.0
TIMEOUT_S = 500

_HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\ntorch.manual_seed(0)\n"

PROGRAMS: dict[str, str] = {
    "mlp": "model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512), nn.LayerNorm(512))\n"
    "inputs = (torch.randn(64, 512),)\n",
    "convnet": "model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(),\n"
    "    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).eval()\ninputs = (torch.randn(8, 3, 32, 32),)\n",
    "residual": """
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.n = nn.BatchNorm2d(width)
    def forward(self, x):
        return F.relu(x + self.b(F.relu(self.n(self.a(x)))))
model = nn.Sequential(nn.Conv2d(3, 32, 3), *(Block(32) for _ in range(3))).eval()
inputs = (torch.randn(4, 3, 24, 24),)
""",
    "transformer": "model = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0)\n"
    "inputs = (torch.randn(8, 32, 128),)\n",
    "small": "model = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(6)))\n"
    "inputs = (torch.randn(4, 16),)\n",
    "pointwise": "def model(x, y):\n    return torch.sin(x) * torch.cos(y) + torch.tanh(x - y)\n"
    "inputs = (torch.randn(16, 16), torch.randn(16, 16))\n",
    "products": "def model(a, b, c):\n    return (a @ b).relu() @ c\n"
    "inputs = (torch.randn(128, 256), torch.randn(256, 256), torch.randn(256, 128))\n",
    "item": "def model(x):\n    y = x * 2 + 1\n    scale = y.abs().max().item()\n    return torch.sin(y / scale) + y\n"
    "inputs = (torch.randn(256, 256),)\n",
    "printing": "def model(x):\n    h = torch.sin(x) + x\n    print('mean', h.mean())\n    return torch.cos(h) * h\n"
    "inputs = (torch.randn(128, 256),)\n",
    "branch": "def model(x):\n    h = torch.tanh(x)\n"
    "    if h.sum() > 0:\n        h = h * 2\n    else:\n        h = h - 1\n"
    "    return torch.exp(h) + x\ninputs = [(torch.randn(128, 128).abs(),), (-torch.randn(128, 128).abs(),)]\n",
    "sizes": "model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8))\n"
    "inputs = [(torch.randn(n, 32),) for n in (8, 12, 16)]\n",
    "blocks": """
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.a, self.b = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
    def forward(self, x):
        return x + self.b(F.gelu(self.a(self.norm(x))))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(64) for _ in range(12))
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
model = Model()
inputs = (torch.randn(16, 64),)
""",
}

FIXED: dict[str, str] = {
    "item": PROGRAMS["item"].replace(".max().item()", ".max()"),
    "printing": PROGRAMS["printing"].replace(
        "def model", "torch._dynamo.config.reorderable_logging_functions.add(print)\ndef model"
    ),
    "branch": PROGRAMS["branch"].replace(
        "    if h.sum() > 0:\n        h = h * 2\n    else:\n        h = h - 1\n",
        "    h = torch.where(h.sum() > 0, h * 2, h - 1)\n",
    ),
}
"""The programs without their break."""

HAND = """
import contextlib, io, json, random, runpy, sys, time
from statistics import median
import torch
import torch._dynamo

torch.set_num_threads(1)
file, fixed, action, target, seconds = *sys.argv[1:5], float(sys.argv[5])
scope, after = runpy.run_path(file), runpy.run_path(fixed)
settings = {}

def calls(of):
    inputs = of["inputs"]
    return inputs if isinstance(inputs, list) else [inputs]

def images(tensor):
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor

now_calls, then_calls, items = calls(scope), calls(after), 1.0
model, changed, arguments = scope["model"], after["model"], {}
if action == "mode" or action == "cuda_graphs":
    arguments["mode"] = target
elif action == "guard_filter":
    arguments["options"] = {"guard_filter_fn": getattr(torch.compiler, target)}
elif action == "channels_last":
    changed = changed.to(memory_format=torch.channels_last)
    then_calls = [tuple(map(images, call)) for call in then_calls]
elif action == "larger_batch":
    size = then_calls[0][0].shape[0]
    then_calls = [tuple(torch.cat([t, t]) if t.shape[0] == size else t for t in call) for call in then_calls]
    items = 2.0

compiled_then = changed if action == "run_eagerly" else torch.compile(changed, **arguments)

def then():
    for call in then_calls:
        if action == "autocast":
            with torch.autocast("cpu", torch.bfloat16):
                compiled_then(*call)
        else:
            compiled_then(*call)

compiled_now = torch.compile(model)

def now():
    for call in now_calls:
        compiled_now(*call)

def block(run, number):
    start = time.perf_counter()
    for _ in range(number):
        run()
    return (time.perf_counter() - start) / number

with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
    torch._inductor.config.freezing = action == "freezing"
    then()
    torch._inductor.config.freezing = False
    now()
    numbers = []
    for run in (now, then):
        block(run, 3)
        numbers.append(max(1, int(0.01 / block(run, 3))))
    ratios, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(ratios) < 15:
        order = random.sample([0, 1], 2)
        times = [0.0, 0.0]
        for side in order:
            times[side] = block((now, then)[side], numbers[side])
        ratios.append(items * times[0] / times[1])
print(json.dumps(median(ratios)))
"""

COMPILE = """
import json, runpy, sys, time
import torch
import torch._dynamo

torch.set_num_threads(1)
file, action, target = sys.argv[1:4]
scope = runpy.run_path(file)
model, inputs = scope["model"], scope["inputs"]
calls = inputs if isinstance(inputs, list) else [inputs]
torch._inductor.config.fx_graph_cache = False
if action == "compile_blocks":
    for block in model.blocks:
        block.compile()
    compiled = model
else:
    compiled = torch.compile(model, dynamic=True if target == "dynamic" else None)
if action == "avoid_recompiles" and target != "dynamic":
    for call in calls:
        torch._dynamo.mark_dynamic(call[0], int(target.rpartition(".")[2]))
with torch.no_grad():
    for call in calls:
        compiled(*call)
times = torch._dynamo.utils.calculate_time_spent()
print(json.dumps(times["entire_frame_compile"]))
"""
"""torch's own time of compiling all frames."""


class Entry(NamedTuple):
    """A step of a program: the stated interval, and the gain by hand."""

    program: str
    action: str
    target: str
    unit: str
    low: float
    high: float
    by_hand: float

    @property
    def within(self) -> bool:
        return self.low <= self.by_hand <= self.high

    def __str__(self) -> str:
        mark = "yes" if self.within else "NO"
        unit = "×" if self.unit == "times faster" else "s"
        stated = f"[{self.low:.2f}, {self.high:.2f}] {unit}"
        return f"{self.program:<12} {self.action:<17} {self.target[:24]:<24} {stated:<22} {self.by_hand:>7.2f}  {mark}"


def steps(file: Path) -> list[dict[str, Any]]:
    """Return the measured steps of a program."""
    command = [sys.executable, "-m", "tcexplore", "next", str(file), "--json", "--threads", "1", "--most", "6"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if not done.stdout:
        raise SystemExit(done.stderr)
    return [step for step in json.loads(done.stdout)["next"] if step["measured"] and step["gain_high"] is not None]


def by_hand(program: str, step: dict[str, Any], folder: Path) -> float:
    """Return the gain of a step in plain scripts."""
    file, fixed = folder / "model.py", folder / "fixed.py"
    if step["unit"] == "seconds":
        turns = [(compile_seconds(file, "", ""), compile_seconds(file, step["action"], target_of(step)))
                 for _ in range(PROCESSES)]  # fmt: skip
        return sum(before - after for before, after in turns) / len(turns)
    fixed.write_text(_HEAD + (FIXED if step["action"] == "fix_break" else PROGRAMS)[program])
    script = folder / "hand.py"
    script.write_text(HAND)
    command = [sys.executable, str(script), str(file), str(fixed), step["action"], step["target"], str(SECONDS)]
    return median(_number(command, {}) for _ in range(PROCESSES))


def target_of(step: dict[str, Any]) -> str:
    return str(step["target"])


def compile_seconds(file: Path, action: str, target: str) -> float:
    with tempfile.TemporaryDirectory() as caches:
        script = file.with_name("compile.py")
        script.write_text(COMPILE)
        return _number([sys.executable, str(script), str(file), action, target], {"TORCHINDUCTOR_CACHE_DIR": caches})


def _number(command: list[str], environment: dict[str, str]) -> float:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(json.loads(done.stdout.splitlines()[-1]))


def entries(program: str) -> Iterator[Entry]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.py")
        file.write_text(_HEAD + PROGRAMS[program])
        for step in steps(file):
            gain = by_hand(program, step, Path(folder))
            yield Entry(
                program, step["action"], step["target"], step["unit"], step["gain_low"], step["gain_high"], gain
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="*", choices=[[], *PROGRAMS], default=[])
    parser.add_argument("--results", type=Path)
    parser.add_argument("--show", action="store_true", help="print the results without measuring more")
    given = parser.parse_args()
    known = [Entry(*entry) for entry in json.loads(given.results.read_text())] if _exists(given.results) else []
    for program in [] if given.show else given.programs or PROGRAMS:
        known = [entry for entry in known if entry.program != program]
        for entry in entries(program):
            print(entry, flush=True)
            known.append(entry)
            if given.results is not None:
                given.results.write_text(json.dumps(known))
    if given.show:
        print(*known, sep="\n")
    within, programs = sum(entry.within for entry in known), len({entry.program for entry in known})
    print(f"{within} of {len(known)} gains within their interval, on {programs} programs")


def _exists(path: Path | None) -> bool:
    return path is not None and path.exists()


if __name__ == "__main__":
    main()
