"""A model whose lines have known costs, and the same lines timed by hand.

The products of one matrix cost 4 : 2 : 1 by construction. A line timed by hand is a function between two readings of
the clock (on a GPU between two events of the device), called in the same order with the same tensors; for the compiled
side, each function is compiled alone. Run as a program, this prints the times as JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

NAMES = ("x", "w", "v", "t")

LINES = {
    "sine and sum": "v.sin().exp().sum(0)",
    "product, 4 units": "x @ w",
    "softmax": "t.softmax(-1)",
    "product, 2 units": "x[: x.shape[0] // 2] @ w",
    "product, 1 unit": "x[: x.shape[0] // 4] @ w",
}
"""The expression of each line. Inductor writes neighboring loops as one C++ kernel, so a product is between them."""

SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "cpu": ((512, 1024), (1024, 1024), (1024, 1536), (1536, 2048)),
    "cuda": ((4096, 4096), (4096, 2048), (16384, 4096), (16384, 6144)),
}
"""The shapes of `NAMES`: each line takes milliseconds on a CPU, and far longer than its launch on a GPU. No two lines
have loops of the same size, which could be fused into one kernel."""

REPEATS, WARM_UP = 25, 3

HEAD_START_CYCLES = 20_000_000
"""The device spins for these cycles, so that no line waits for its launch."""


def model_source(device: str) -> str:
    """Return the model file; its line of each expression is that of `line_numbers`."""
    body = "".join(f"        out{n} = {expression}\n" for n, expression in enumerate(LINES.values()))
    results = ", ".join(f"out{n}" for n in range(len(LINES)))
    tensors = ", ".join(f"torch.randn{shape}" for shape in SHAPES[device])
    return (
        f"import torch\n\n\nclass KnownCosts(torch.nn.Module):\n    def forward(self, {', '.join(NAMES)}):\n{body}"
        f"        return {results}\n\n\nmodel = KnownCosts()\ninputs = ({tensors})\n"
    )


def line_numbers(source: str) -> dict[str, int]:
    """Return the number of each line in the model file."""
    lines = [line.strip() for line in source.splitlines()]
    return {name: lines.index(f"out{n} = {expression}") + 1 for n, (name, expression) in enumerate(LINES.items())}


def timed_by_hand(device: str, side: str) -> dict[str, float]:
    """Return the microseconds of each line: the fastest of all repeats, since other load only ever slows it down."""
    import torch

    torch.manual_seed(0)
    tensors = [torch.randn(shape, device=device) for shape in SHAPES[device]]
    functions = [_function(expression) for expression in LINES.values()]
    if side == "compiled":
        functions = [torch.compile(function) for function in functions]
    with torch.no_grad():
        calls = [_timed_lines(device, functions, tensors) for _ in range(WARM_UP + REPEATS)][WARM_UP:]
    return {name: min(call[n] for call in calls) for n, name in enumerate(LINES)}


def _function(expression: str) -> Callable[..., Any]:
    scope: dict[str, Any] = {}
    exec(f"def line({', '.join(NAMES)}):\n    return {expression}\n", scope)
    function: Callable[..., Any] = scope["line"]
    return function


def _timed_lines(device: str, functions: Sequence[Callable[..., Any]], tensors: Sequence[Any]) -> list[float]:
    import torch

    outputs = []
    if device == "cpu":
        times = [perf_counter()]
        for function in functions:
            outputs.append(function(*tensors))
            times.append(perf_counter())
        return [(end - start) * 1e6 for start, end in pairwise(times)]
    events = [torch.cuda.Event(enable_timing=True) for _ in range(len(functions) + 1)]
    torch.cuda.synchronize()
    torch.cuda._sleep(HEAD_START_CYCLES)
    events[0].record()
    for function, event in zip(functions, events[1:], strict=True):
        outputs.append(function(*tensors))
        event.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) * 1e3 for start, end in pairwise(events)]


def reported(report: dict[str, Any], file: Path, side: str) -> dict[str, float]:
    """Return the microseconds of each line in a JSON report."""
    numbers = line_numbers(file.read_text())
    times = {line["line"]: line[f"{side}_us"] or 0.0 for line in report["line_times"]}
    return {name: times.get(number, 0.0) for name, number in numbers.items()}


def main() -> None:
    """Print the times of both sides as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    if options.threads:
        import torch

        torch.set_num_threads(options.threads)
    print(json.dumps({side: timed_by_hand(options.device, side) for side in ("eager", "compiled")}))


if __name__ == "__main__":
    main()
