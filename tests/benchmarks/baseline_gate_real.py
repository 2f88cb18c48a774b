"""False alarms and misses of `check --baseline` with real runs: `python -m tests.benchmarks.baseline_gate_real FOLDER`.

One run of a small model is the baseline. 20 unchanged reruns and 10 reruns with one regression each are checked against
it. Then every two unchanged runs are compared, with the next one as the second measurement, and each of them with every
other one as if its compile, or its compiled calls, took exactly 1.5 and 1.2 times as long. Reports are kept in FOLDER
and reused, so the benchmark can be continued. Run it while the machine does other work.
Target: no false alarm, 10 regressions detected, and 95% of the exact ones.
"""

from __future__ import annotations

import argparse
import copy
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tcexplore.cli.baseline import baseline_figures, compare, confirm
from tests.benchmarks.baseline_gate import lengthen_calls, slower

RERUNS = 20

TIME_FOR = "4"

MODEL = """\
import time
import torch
from torch import nn

SLOWER_US = 0
PASS_S = 0.0

@torch.library.custom_op("gate::wait", mutates_args=())
def wait(x: torch.Tensor) -> torch.Tensor:
    end = time.thread_time() + SLOWER_US / 1e6
    while SLOWER_US and time.thread_time() < end:
        pass
    return x.clone()

wait.register_fake(torch.empty_like)

def slow_pass(graph):
    end = time.thread_time() + PASS_S
    while time.thread_time() < end:
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
"""The model; its op lengthens compiled calls, and its pass the compile, both by CPU time, as more work would."""

REGRESSIONS: dict[str, tuple[str, str]] = {
    "a break": ("# more", "x = x * x.max().item()"),
    "another break at a known line": ('print("x")', 'print("x"); print("x")'),
    "a recompile": ("inputs = [(torch.randn(128, 256),)", "inputs = [(torch.randn(n, 256),) for n in (128, 64)"),
    "another graph": ("# more", "torch._dynamo.graph_break()"),
    "two more kernels": ("# more", "x = torch.cos(torch.sin(x) @ self.first.weight) @ self.first.weight"),
    "another library call": ("# more", "x = x @ self.first.weight"),
    "slower 1.2 times": ("SLOWER_US = 0", "SLOWER_US = 0.2 * {us}"),
    "slower 1.5 times": ("SLOWER_US = 0", "SLOWER_US = 0.5 * {us}"),
    "compile 1.5 times longer": ("PASS_S = 0.0", "PASS_S = 0.5 * {cpu_s} / 2"),
    "compile 2 times longer": ("PASS_S = 0.0", "PASS_S = 1.0 * {cpu_s} / 2"),
}
"""Name, and the text of `MODEL` that is replaced by another one. The pass runs once for each of its two graphs."""

Report = dict[str, Any]


class UnfinishedError(Exception):
    """The time of this call of the benchmark is over."""


class Checks:
    """Checks of models; their reports are in a folder."""

    def __init__(self, folder: Path, threads: str, seconds: float) -> None:
        self._folder = folder
        self._options = ("--json", "--time-for", TIME_FOR, "--threads", threads)
        self._end = time.monotonic() + seconds
        folder.mkdir(parents=True, exist_ok=True)

    def report(self, name: str, source: str, *options: str) -> Report:
        """Return the report of a model, which is checked unless the report exists."""
        path = self._folder / f"{name.replace(' ', '_')}.json"
        if not path.exists():
            if time.monotonic() > self._end:
                raise UnfinishedError
            model = self._folder / "model.py"
            model.write_text(source)
            command = [sys.executable, "-m", "tcexplore", "check", str(model), *self._options, *options]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            path.with_suffix(".log").write_text(done.stderr)
            if done.returncode not in (0, 1):
                raise SystemExit(f"{name}: {done.stderr}")
            path.write_text(done.stdout)
        content: Report = json.loads(path.read_text())
        return content

    def worse(self, name: str, source: str) -> list[str]:
        """Return what a check against the baseline finds worse."""
        content = self.report(name, source, "--baseline", str(self._folder / "baseline.json"))
        return list(content["limits_exceeded"])


def fails(baseline: Report, first: Report, second: Report) -> bool:
    """Return whether the gate fails a run with these two measurements."""
    before = baseline_figures(baseline)
    return bool(confirm(*(compare(before, baseline_figures(each)) for each in (first, second))).worse)


def longer_compile(changed: Report) -> None:
    lengthen_calls(changed, 1.5)
    changed["compile_time"]["seconds"] *= 1.5


def compare_all(runs: list[Report]) -> None:
    """Print how often the gate fails a run, with the next one as its second measurement, against each other one."""
    changes: dict[str, Callable[[Report], object]] = {
        "unchanged": lambda _: None, "compile 1.5 times longer": longer_compile, "slower 1.2 times": slower(1.2),
    }  # fmt: skip
    pairs = [(before, n) for before in range(len(runs)) for n in range(len(runs) - 1) if before not in (n, n + 1)]
    for name, change in changes.items():
        changed = copy.deepcopy(runs)
        for run in changed:
            change(run)
        failed = sum(fails(runs[before], changed[n], changed[n + 1]) for before, n in pairs)
        print(f"all pairs, {name}: {failed} of {len(pairs)} fail")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--reruns", type=int, default=RERUNS)
    parser.add_argument("--threads", default="1", help="several wait for each other at every kernel on a busy machine")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no run after this time")
    options = parser.parse_args()
    checks = Checks(options.folder, options.threads, options.seconds)
    checks.report("warm-up", MODEL)  # compiles torch's headers, and fills the cache of kernels
    baseline = checks.report("baseline", MODEL)
    known = {
        "us": min(baseline["timing"]["samples"]["compiled_us"]),
        "cpu_s": sum(call["cpu_s"] for call in baseline["calls"] if call["cpu_s"]),
    }
    alarms = [lines for number in range(options.reruns) if (lines := checks.worse(f"rerun {number}", MODEL))]
    print(f"unchanged: {len(alarms)} false of {options.reruns}")
    print("".join(f"  {line}\n" for lines in alarms for line in lines), end="")
    compare_all([baseline, *(checks.report(f"rerun {number}", MODEL) for number in range(options.reruns))])
    regressions = {
        name: checks.worse(name, MODEL.replace(before, after.format(**known)))
        for name, (before, after) in REGRESSIONS.items()
    }
    print(f"regressions: {sum(map(bool, regressions.values()))} found of {len(regressions)}")
    for name, lines in regressions.items():
        print(f"  {name:<30} {'; '.join(lines) or 'MISSED'}")


if __name__ == "__main__":
    try:
        main()
    except UnfinishedError:
        sys.exit("unfinished: run it again")
