"""Cost of the capture: a whole compile with hooks compared with the same compile without, in one warm process.

    python -m tests.benchmarks.capture_cost [--modules dynamo|all] [--rounds 15]

Both compile the same model from scratch, in random order: a fixed one hides a part of the cost. Garbage is collected
before each compile. C++ code is compiled once only, which maximizes the share of the capture. Prints the ratio of the
medians.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Callable
from importlib import import_module
from statistics import median

import torch
import torch._dynamo
import torch._functorch.config
import torch._inductor.config

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.install_hooks import BACKEND_MODULES, DYNAMO_MODULES
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles

MODULES = (*DYNAMO_MODULES, *BACKEND_MODULES)


def mlp() -> tuple[torch.nn.Module, torch.Tensor]:
    layers = [torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 64)]
    return torch.nn.Sequential(*layers), torch.randn(8, 64)


def transformer() -> tuple[torch.nn.Module, torch.Tensor]:
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=True)
    return torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), torch.randn(2, 16, 64)


def compile_once(model: torch.nn.Module, x: torch.Tensor) -> float:
    """Return the seconds from a Dynamo reset to the first result."""
    torch._dynamo.reset()
    gc.collect()
    start = time.perf_counter()
    torch.compile(model)(x)
    return time.perf_counter() - start


def watched(modules: tuple[str, ...], run: Callable[[], float]) -> float:
    events: list[object] = []
    hooks, user_files = Hooks(events.append), UserFiles(__file__)
    trace = StructuredTrace(hooks)
    for module in modules:
        import_module(f"tcexplore.capture.{module}").install(hooks, trace, user_files)
    trace.install()
    try:
        return run()
    finally:
        trace.remove()
        hooks.remove()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--modules", choices=("dynamo", "all"), default="all")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    modules = DYNAMO_MODULES if options.modules == "dynamo" else MODULES
    caches = (
        torch._inductor.config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    )
    with caches[0], caches[1], torch.no_grad():
        for make in (mlp, transformer):
            report(make.__name__, *make(), modules, options.rounds)


def report(name: str, model: torch.nn.Module, x: torch.Tensor, modules: tuple[str, ...], rounds: int) -> None:
    model.eval()

    def run() -> float:
        return compile_once(model, x)

    for _ in range(2):
        run(), watched(modules, run)
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for captured in random.sample((False, True), 2):
            times[captured].append(watched(modules, run) if captured else run())
    without, with_capture = median(times[False]), median(times[True])
    ratio = with_capture / without
    print(f"{name:12} without {without * 1e3:6.0f} ms  with {with_capture * 1e3:6.0f} ms  ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
