"""Time from a save until the FX graph and the generated C++ are on the screen, compared with TORCH_TRACE and tlparse.

The baseline is `TORCH_TRACE=dir python file.py` with warm caches, then `tlparse dir` (from PyPI, at --tlparse).
tcexplore runs in a pseudo-terminal. Each save changes a constant, and the time ends when that constant is painted in
the graph pane (or the code pane), the only pane on the screen. The first saves come while the worker is primed, and are
not counted.

With `--model llama`, a Llama of 32 layers, whose graph has 2,000 nodes, is saved, and the baselines are the least that
a save can take, in a process that has done it before: Dynamo's tracing alone, and with the execution of the file.

Run: python -m tests.benchmarks.save_to_paint [--saves 20] [--gap 3] [--only graph] [--tlparse tlparse]
     python -m tests.benchmarks.save_to_paint --model llama [--saves 8] [--gap 8]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.terminal import Terminal

MODEL = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.norm, self.fc2 = nn.Linear(64, 128), nn.LayerNorm(128), nn.Linear(128, 64)

    def forward(self, x):
        h = F.gelu(self.norm(self.fc1(x))) * CONSTANT
        print("seen")
        return self.fc2(h)


torch.manual_seed(0)
model = MLP().eval()
inputs = (torch.randn(32, 64),)
"""

SCRIPT = """
if __name__ == "__main__":
    with torch.no_grad():
        torch.compile(model)(*inputs)
"""

LLAMA = """\
import torch
import torch.nn as nn
from transformers import LlamaConfig, LlamaForCausalLM


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=32, num_attention_heads=4,
                num_key_value_heads=2, use_cache=False,
            )
        )

    def forward(self, ids):
        return self.net(ids).logits * CONSTANT


torch.manual_seed(0)
model = Model().eval()
inputs = (torch.randint(0, 128, (1, 16)),)
"""

WARM = """\
import json, sys, time
import torch
from torch._dynamo.output_graph import OutputGraph

text, saves = open(sys.argv[1]).read(), int(sys.argv[2])
arrived = []
original = OutputGraph.call_user_compiler

def call_user_compiler(*args, **kwargs):
    arrived.append(time.perf_counter())
    return original(*args, **kwargs)

OutputGraph.call_user_compiler = call_user_compiler
times = []
for index in range(saves + 1):
    torch._dynamo.reset()
    arrived.clear()
    start, scope = time.perf_counter(), {"__name__": "model"}
    exec(compile(text.replace("CONSTANT", f"1.{index}"), "model.py", "exec"), scope)
    made = time.perf_counter()
    with torch.no_grad():
        torch.compile(scope["model"], backend="eager")(*scope["inputs"])
    times.append((arrived[0] - made, arrived[0] - start))
print(json.dumps(times[1:]))
"""

UNCOUNTED = 4
"""Saves before the counted ones."""

PANES = {
    "graph": ("2", "save to FX graph", "at most 100, worst 200, 60 × faster"),
    "code": ("5", "save to generated C++", "at most 300"),
}
"""Key and title of each measured pane, and its goals in milliseconds."""


def constant(index: int) -> str:
    return f"1.{os.getpid() % 1000:03d}{index:03d}7"


def atomic_save(file: Path, text: str) -> float:
    """Save by rename, as most editors do; return the time of the save."""
    new = file.with_suffix(".new")
    new.write_text(text)
    os.replace(new, file)
    return time.perf_counter()


def tlparse_times(folder: Path, saves: int, tlparse: str) -> list[float]:
    """Return the seconds per save with TORCH_TRACE and tlparse."""
    file, trace, out = folder / "script.py", folder / "trace", folder / "report"
    times = []
    for index in range(saves + 1):
        file.write_text(MODEL.replace("CONSTANT", constant(index)) + SCRIPT)
        shutil.rmtree(trace, ignore_errors=True)
        start = time.perf_counter()
        environment = {**os.environ, "TORCH_TRACE": str(trace)}
        subprocess.run([sys.executable, str(file)], env=environment, check=True, capture_output=True)
        log = next(trace.iterdir())
        subprocess.run(
            [tlparse, str(log), "-o", str(out), "--overwrite", "--no-browser"], check=True, capture_output=True
        )
        times.append(time.perf_counter() - start)
    return times[1:]  # the first fills the caches


def warm_times(folder: Path, saves: int, model: str) -> list[tuple[float, float]]:
    """Return the seconds of Dynamo's tracing, and with the execution of the file, again and again in one process."""
    script, file = folder / "warm.py", folder / "warm_model.txt"
    script.write_text(WARM)
    file.write_text(model)
    done = subprocess.run(
        [sys.executable, str(script), str(file), str(saves)], check=True, capture_output=True, text=True
    )
    return [(traced, whole) for traced, whole in json.loads(done.stdout.splitlines()[-1])]


def explorer_times(folder: Path, saves: int, pane: str, gap: float, model: str = MODEL) -> list[float]:
    """Return the seconds per save until the new constant is painted in a pane; `pane` is its key.

    Saves come `gap` seconds apart.
    """
    file = folder / "model.py"
    file.write_text(model.replace("CONSTANT", constant(500)))
    times = []
    with Terminal([sys.executable, "-m", "tcexplore", str(file)], columns=130, rows=200, cwd=str(folder)) as terminal:
        terminal.type(pane + "z")  # the pane alone on the screen
        saved = terminal.wait_for(constant(500), timeout=120)
        for index in range(saves + UNCOUNTED):
            while (left := saved + gap - time.perf_counter()) > 0:
                terminal.read_once(left)
            terminal.forget()
            saved = atomic_save(file, model.replace("CONSTANT", constant(501 + index)))
            times.append(terminal.wait_for(constant(501 + index), timeout=60) - saved)
    print("  ms:", *(round(seconds * 1e3) for seconds in times), flush=True)
    return times[UNCOUNTED:]


def compare_with_tracing(folder: Path, saves: int, gap: float) -> None:
    """Print the time from a save of the Llama to its graph, beside the least that it can take."""
    warm = warm_times(folder, saves, LLAMA)
    times = explorer_times(folder, saves, PANES["graph"][0], gap, LLAMA)
    shown = statistics.median(times)
    print(f"save to FX graph {shown * 1e3:8.0f} ms, worst {max(times) * 1e3:.0f} ms (at most 600)")
    names = "Dynamo's tracing in a warm process", "with the execution of the file"
    for name, seconds in zip(names, zip(*warm, strict=True), strict=True):
        floor = statistics.median(seconds)
        print(f"{name:36}{floor * 1e3:8.0f} ms   {shown / floor:5.2f} ×")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saves", type=int, default=20)
    parser.add_argument("--gap", type=float, default=3.0, metavar="S", help="seconds between two saves")
    parser.add_argument("--only", choices=("graph", "code"), help="measure one pane, and not the baseline")
    parser.add_argument("--tlparse", default="tlparse")
    parser.add_argument("--model", choices=("mlp", "llama"), default="mlp")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="save-to-paint-"))
    try:
        if options.model == "llama":
            compare_with_tracing(folder, options.saves, options.gap)
            return
        baseline = None
        if options.only is None:
            baseline = statistics.median(tlparse_times(folder, max(3, options.saves // 4), options.tlparse))
            print(f"TORCH_TRACE run and tlparse      {baseline * 1e3:8.0f} ms", flush=True)
        for name, (key, title, goals) in PANES.items():
            if options.only in (None, name):
                times = explorer_times(folder, options.saves, key, options.gap)
                ratio = f"   {baseline / statistics.median(times):5.1f} × faster" if baseline else ""
                figures = f"{statistics.median(times) * 1e3:8.0f} ms, worst {max(times) * 1e3:.0f} ms"
                print(f"{title:33}{figures} ({goals}){ratio}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
