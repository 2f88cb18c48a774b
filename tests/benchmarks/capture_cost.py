"""Cost of the capture: a whole compile with hooks compared with the same compile without, in one warm process.

    python -m tests.benchmarks.capture_cost [--modules dynamo|all] [--rounds 15]

All compile the same model from scratch, in random order: a fixed one hides a part of the cost. Garbage is collected
before each compile. C++ code is compiled once only, which maximizes the share of the capture.

Prints the ratio of the medians, with capture as in a worker, where frames have room in one piece
(`call_with_frame_room`), over without. The room makes up for the hooks, so the cost of the hooks alone is printed, too:
the ratio of two compiles that both have the room.
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
from tcexplore.worker.process_setup import call_with_frame_room

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
    ways: tuple[Callable[[], float], ...] = (
        run,
        lambda: call_with_frame_room(lambda: watched(modules, run)),
        lambda: call_with_frame_room(run),
    )
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        for way in random.sample(range(len(ways)), len(ways)):
            times[way].append(ways[way]())
    without, with_capture, with_room = map(median, times)
    print(
        f"{name:12} without {without * 1e3:6.0f} ms  with {with_capture * 1e3:6.0f} ms  ratio "
        f"{with_capture / without:.3f}; both with room for frames {with_capture / with_room:.3f}"
    )


if __name__ == "__main__":
    main()
