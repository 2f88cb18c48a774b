"""What the hooks cost in a timed call: microseconds per call with and without them, and which of them a call runs.

    python -m tests.benchmarks.hook_cost [--rounds 3] [--device cuda]

Processes with and without hooks take turns, since a process is one sample. In the hooked ones, the hooks are removed
at the end, and the same calls are timed once more. A warm call must run no function of tcexplore.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from statistics import median
from typing import Any

from tests.capture.called_functions import ROOT, functions_of_tcexplore

UNITS = 20
BLOCKS = 60


def main() -> None:
    """Print medians of the processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--hooks", choices=("with", "without"), help="be one of the processes")
    options = parser.parse_args()
    if options.hooks:
        print(json.dumps(measure(options.device, hooked=options.hooks == "with")))
        return
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    ran: Counter[str] = Counter()
    for _ in range(options.rounds):
        for hooks in ("without", "with"):
            command = [sys.executable, "-m", "tests.benchmarks.hook_cost", "--device", options.device, "--hooks", hooks]
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
            result = json.loads(done.stdout.splitlines()[-1])
            ran.update(result["ran"])
            for state, calls in result["times"].items():
                for call, us in calls.items():
                    times[call][state].append(us)
    for call, states in times.items():
        typical = {state: median(values) for state, values in states.items()}
        spread = max(states["without"]) / min(states["without"]) - 1
        print(
            f"{call:<18} without {typical['without']:9.2f} µs  with {typical['with']:9.2f} "
            f"({typical['with'] / typical['without'] - 1:+.1%})  removed again {typical['removed']:9.2f} "
            f"({typical['with'] / typical['removed'] - 1:+.1%} with)  processes differ by {spread:.1%}"
        )
    print("functions of tcexplore in warm calls:", dict(ran) or "none")


def measure(device: str, *, hooked: bool) -> dict[str, Any]:
    """Return times of warm calls by state of the hooks, and the functions of tcexplore that ran in them."""
    from tcexplore.capture.hooks import Hooks
    from tcexplore.capture.install_hooks import install_all
    from tcexplore.capture.user_files import UserFiles

    hooks = Hooks(lambda _: None)
    if hooked:
        install_all(hooks, UserFiles(__file__))
    calls = warm_calls(device)
    ran = Counter[str]()
    for call in calls.values():
        ran.update(functions_of_tcexplore(call))
    times = {"with" if hooked else "without": time_calls(calls, device)}
    if hooked:
        hooks.remove()
        times["removed"] = time_calls(calls, device)
    return {"times": times, "ran": ran}


def warm_calls(device: str) -> dict[str, Callable[[], object]]:
    """Return calls of a small model, each of them compiled and warm."""
    import torch
    from torch import nn

    def layers() -> nn.Module:
        return nn.Sequential(*[m for _ in range(8) for m in (nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64))]).to(
            device
        )

    x, model, trained = torch.randn(8, 64, device=device), layers(), layers()
    compiled, compiled_step = torch.compile(model), torch.compile(trained)

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = model(x)
        torch._dynamo.graph_break()
        return model(y)

    def inferred(function: Callable[..., Any]) -> Callable[[], object]:
        def call() -> object:
            with torch.no_grad():
                return function(x)

        return call

    calls: dict[str, Callable[[], object]] = {
        "eager": inferred(model),
        "compiled": inferred(compiled),
        "with a break": inferred(torch.compile(broken)),
        "compiled training": lambda: compiled_step(x).sum().backward(),
    }
    if device != "cpu":
        calls["CUDA graphs"] = inferred(torch.compile(layers(), mode="reduce-overhead"))
    for call in calls.values():
        for _ in range(6):
            call()
    return calls


def time_calls(calls: dict[str, Callable[[], object]], device: str) -> dict[str, float]:
    """Return the median microseconds of each call, from blocks in turn."""
    import torch

    from tcexplore.timing.blocks import BlockTimer, SystemClock
    from tcexplore.timing.timed_machine import make_synchronizer

    timer = BlockTimer(SystemClock(), make_synchronizer(torch.device(device)), None, 0)
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(BLOCKS):
        for name, call in calls.items():
            times[name].append(timer.time_block(call, UNITS, warm=2).unit_ns / 1e3)
    return {name: median(values) for name, values in times.items()}


if __name__ == "__main__":
    main()
