"""Share of generated code that is linked to the user's lines, its cost, and a check that it changes nothing.

    python -m tests.benchmarks.provenance [--models NAME,…] [--no-gpu] [--no-cost] [--no-hand] [--show-unlinked]

Prints three tables. The first has a row per model, phase and language: kernels with source lines, and statements with
an op and a line. The second checks links against hand-written listings. The third shows for each model whether wrapper
and kernels are the same text with and without hooks, whether outputs and gradients are bit-identical, and the ratio of
compile times.
"""

from __future__ import annotations

import argparse
import collections
import gc
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
import torch._dynamo
from torch.utils._pytree import tree_leaves

from tcexplore.events import Event, FactMissing, Kernel
from tests.benchmarks.provenance_models import Model, models
from tests.capture.by_hand import listings
from tests.capture.compiling import captured, compiled, generated, generated_for_gpu, watching
from tests.capture.statements import linked

ROW = "{:24} {:9} {:7} {:>9} {:>9} {:>12} {:>8}"


class Counts(NamedTuple):
    """Numbers of kernels, kernels with source lines, statements, and linked statements."""

    kernels: int
    sourced: int
    statements: int
    linked: int


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="", help="models whose name contains one of these")
    parser.add_argument("--no-gpu", action="store_true", help="skip Triton")
    parser.add_argument("--no-cost", action="store_true", help="skip identity and cost")
    parser.add_argument("--no-hand", action="store_true", help="skip hand-written listings")
    parser.add_argument("--show-unlinked", action="store_true", help="print statements without a link")
    options = parser.parse_args()
    names = [name for name in options.models.split(",") if name]
    chosen = [m for m in models() if not names or any(name in m.name for name in names)]
    coverage(chosen, gpu=not options.no_gpu, show=options.show_unlinked)
    if not options.no_hand:
        by_hand()
    if not options.no_cost:
        cost(chosen, gpu=not options.no_gpu)


def coverage(chosen: Iterable[Model], *, gpu: bool, show: bool) -> None:
    """Print linked kernels and statements per model and in total."""
    print(ROW.format("model", "phase", "code", "kernels", "sourced", "statements", "linked"))
    totals: dict[tuple[str, str], list[Counts]] = collections.defaultdict(list)
    for model in chosen:
        for train, on_gpu in [(False, False), (True, False)] + ([(False, True), (True, True)] if gpu else []):
            torch.manual_seed(0)
            module, inputs = model.make()
            try:
                events = captured(module, inputs, model.file, train=train, gpu=on_gpu)
            except Exception as error:  # noqa: BLE001  a model that fails to compile is reported and skipped
                print(f"{model.name:24} {'train' if train else 'forward':9} could not be compiled: {error!s:.90}")
                continue
            for key, counts in _counted(events, train=train, show=show).items():
                totals[key].append(counts)
                _row(model.name, *key, counts)
    for (phase, language), several in sorted(totals.items()):
        _row("all", phase, language, Counts(*(sum(column) for column in zip(*several, strict=True))))


def _counted(events: list[Event], *, train: bool, show: bool) -> dict[tuple[str, str], Counts]:
    counts: dict[tuple[str, str], list[Counts]] = collections.defaultdict(list)
    for event in events:
        if isinstance(event, FactMissing):
            print("  missing:", event.fact, event.symbol, event.reason)
        if not isinstance(event, Kernel):
            continue
        phase = f"{event.phase}{'' if event.phase == 'backward' or not train else ' (t)'}"
        if event.language == "extern":
            counts[phase, "extern"].append(Counts(1, bool(event.source_lines), 0, 0))
            continue
        good, bad = linked(event)
        if show:
            _show(event, bad)
        counts[phase, event.language].append(Counts(1, bool(event.source_lines), len(good) + len(bad), len(good)))
    return {key: Counts(*(sum(column) for column in zip(*several, strict=True))) for key, several in counts.items()}


def _show(kernel: Kernel, unlinked: set[int]) -> None:
    lines, known = kernel.source.split("\n"), {line.n: line for line in kernel.lines}
    for n in sorted(unlinked):
        nodes = ",".join(known[n].nodes) if n in known else "-"
        print(f"    {kernel.name[:40]:40} {n:4} [{nodes}] {lines[n - 1].strip()[:130]}")


def _row(name: str, phase: str, language: str, counts: Counts) -> None:
    share = f"{100 * counts.linked / counts.statements:.1f}%" if counts.statements else "-"
    print(ROW.format(name, phase, language, counts.kernels, counts.sourced, counts.statements, share))


def by_hand() -> None:
    """Print wrong, missing and right links, compared with the hand-written listings."""
    row = "{:24} {:>9} {:>9} {:>9}"
    print("\n" + row.format("checked by hand", "wrong", "missing", "right"))
    totals = []
    for name in listings.names():
        try:
            right, wrong, missing = listings.judge(name)
        except listings.OtherCodeError as error:
            print(f"{name:24} skipped: {error}")
            continue
        totals.append((right, len(wrong), len(missing)))
        print(row.format(name, len(wrong), len(missing), right))
        print(*(f"    {report}" for report in (*wrong, *missing)), sep="\n", end="\n" if wrong or missing else "")
    print(row.format("all", *(sum(counts[at] for counts in totals) for at in (1, 2, 0))))


def cost(chosen: Iterable[Model], *, gpu: bool, repeats: int = 5) -> None:
    """Print whether code is the same with hooks and without, and the time of a compile with warm caches.

    `traced` includes torch's structured trace, for which torch formats texts.
    """
    heading = ("model", "same code", "results", "without", "hooks", "ratio", "traced", "ratio")
    print("\n{:24} {:10} {:8} {:>9} {:>9} {:>6} {:>9} {:>6}".format(*heading))
    for model in chosen:
        module, inputs = model.make()
        rounds = [_round(model, module, inputs) for _ in range(repeats + 1)]
        columns = zip(*(seconds for seconds, _, _ in rounds[1:]), strict=True)
        without, hooks, traced = map(statistics.median, columns)
        equal = [equal for _, equal, _ in rounds] + [_same_for_gpu(model, module, inputs)] * gpu
        same = "yes" if all(equal) else "NO"
        results = "same" if all(unchanged for _, _, unchanged in rounds) else "DIFFER"
        ratios = f"{hooks:8.2f}s {hooks / without:6.2f} {traced:8.2f}s {traced / without:6.2f}"
        print(f"{model.name:24} {same:10} {results:8} {without:8.2f}s {ratios}")


def _round(model: Model, module: Any, inputs: tuple[Any, ...]) -> tuple[list[float], bool, bool]:
    """Return the CPU seconds of a compile without hooks, with hooks and traced; whether the code was the same; and
    whether the results were."""
    seconds: list[float] = []
    results: list[list[torch.Tensor]] = []

    def compile_once() -> None:
        if isinstance(module, torch.nn.Module):
            module.zero_grad(set_to_none=True)
        elapsed, output = _timed(compiled, module, inputs)
        seconds.append(elapsed)
        results.append(_results(module, output))

    texts = [generated(compile_once)]
    for traced in (False, True):
        with watching(model.file, traced=traced):
            texts.append(generated(compile_once))
    unchanged = all(_equal(results[0], others) for others in results[1:])
    return seconds, texts.count(texts[0]) == len(texts), unchanged


def _results(module: Any, output: Any) -> list[torch.Tensor]:
    """Return the outputs and the gradients."""
    parameters = list(module.parameters()) if isinstance(module, torch.nn.Module) else []
    gradients = [parameter.grad.clone() for parameter in parameters if parameter.grad is not None]
    outputs = [leaf.detach().clone() for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    return [*outputs, *gradients]


def _equal(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(map(torch.equal, a, b))


def _same_for_gpu(model: Model, module: Any, inputs: tuple[Any, ...]) -> bool:
    plain, hooked = (generated_for_gpu(module, inputs, file, train=True) for file in (None, model.file))
    return plain == hooked


def _timed(compile_: Callable[..., Any], module: Any, inputs: tuple[Any, ...]) -> tuple[float, Any]:
    torch.manual_seed(0)
    gc.collect()
    start = time.process_time()
    output = compile_(module, inputs, train=True)
    return time.process_time() - start, output


if __name__ == "__main__":
    main()
