"""False alarms and misses of `check --baseline` with real runs: `python -m tests.benchmarks.baseline_gate_real FOLDER`.

One run of a small model is the baseline. 20 unchanged reruns and 10 reruns with one regression each are compared with
it. Reports are kept in FOLDER and reused, so the benchmark can be continued. Run it while the machine does other work.
Target: no false alarm, 10 regressions detected.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tcexplore.cli.gate.baseline_comparison import baseline_figures, compare

RERUNS = 20

TIMING = ("--time-for", "4", "--threads", "1")
"""On a loaded machine, one thread is steadier: several wait for each other at every kernel."""

MODEL = """\
import time
import torch
from torch import nn

SLOWER_US = 0
PASS_S = 0.0

@torch.library.custom_op("gate::wait", mutates_args=())
def wait(x: torch.Tensor) -> torch.Tensor:
    end = time.perf_counter() + SLOWER_US / 1e6
    while SLOWER_US and time.perf_counter() < end:
        pass
    return x.clone()

wait.register_fake(torch.empty_like)

def slow_pass(graph):
    end = time.perf_counter() + PASS_S
    while time.perf_counter() < end:
        pass

torch._inductor.config.post_grad_custom_post_pass = slow_pass

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(256, 256)
        self.second = nn.Linear(256, 256)

    def forward(self, x):
        x = torch.relu(self.first(x))
        print("x")
        x = torch.softmax(self.second(x), -1)
        if torch.compiler.is_compiling():
            x = wait(x)
        # more
        return x * 2

model = Model()
inputs = [(torch.randn(128, 256),)]
"""
"""The model; its op waits in compiled calls only, and its pass lengthens the compile."""

REGRESSIONS: dict[str, tuple[str, str]] = {
    "a break": ("# more", "x = x * x.max().item()"),
    "another break at a known line": ('print("x")', 'print("x"); print("x")'),
    "a recompile": ("inputs = [(torch.randn(128, 256),)", "inputs = [(torch.randn(n, 256),) for n in (128, 64)"),
    "another graph": ("# more", "torch._dynamo.graph_break()"),
    "two more kernels": ("# more", "x = torch.cos(torch.sin(x) @ self.first.weight) @ self.first.weight"),
    "another library call": ("# more", "x = x @ self.first.weight"),
    "slower 1.2 times": ("SLOWER_US = 0", "SLOWER_US = 0.2 * {us}"),
    "slower 1.5 times": ("SLOWER_US = 0", "SLOWER_US = 0.5 * {us}"),
    "compile 1.5 times longer": ("PASS_S = 0.0", "PASS_S = 0.5 * {compile_s} / 2"),
    "compile 2 times longer": ("PASS_S = 0.0", "PASS_S = 1.0 * {compile_s} / 2"),
}
"""Name, and the text of `MODEL` that is replaced by another one. The pass runs once for each of its two graphs."""

Report = dict[str, Any]


def report(folder: Path, name: str, source: str) -> Report:
    """Return the report of a model, which is run unless its report exists."""
    path = folder / f"{name.replace(' ', '_')}.json"
    if not path.exists():
        model = folder / "model.py"
        model.write_text(source)
        command = [sys.executable, "-m", "tcexplore", "check", str(model), "--json", *TIMING]
        path.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    content: Report = json.loads(path.read_text())
    return content


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--reruns", type=int, default=RERUNS)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    report(options.folder, "warm-up", MODEL)  # compiles torch's headers, and fills the cache of kernels
    baseline = report(options.folder, "baseline", MODEL)
    figures = baseline_figures(baseline)
    known = {"us": min(baseline["timing"]["samples"]["compiled_us"]), "compile_s": baseline["compile_time"]["seconds"]}

    def worse(name: str, source: str) -> list[str]:
        return compare(figures, baseline_figures(report(options.folder, name, source)))[0]

    alarms = [lines for number in range(options.reruns) if (lines := worse(f"rerun {number}", MODEL))]
    print(
        f"unchanged: {len(alarms)} false of {options.reruns}",
        *(f"  {line}" for lines in alarms for line in lines),
        sep="\n",
    )
    regressions = {
        name: worse(name, MODEL.replace(before, after.format(**known))) for name, (before, after) in REGRESSIONS.items()
    }
    print(f"regressions: {sum(map(bool, regressions.values()))} found of {len(regressions)}")
    for name, lines in regressions.items():
        print(f"  {name:<30} {'; '.join(lines) or 'MISSED'}")


if __name__ == "__main__":
    main()
