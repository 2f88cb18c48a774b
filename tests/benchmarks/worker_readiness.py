"""What each way to prepare a worker gives: times to the graph and to the code with all, without each, and with none.

Each variant is a copy of the package with one preparation taken out. Variants take turns, so that other load affects
all. The table in docs/architecture.md, "Worker processes", is from this command.

With `--device cuda`, the model is on a GPU, where each process primes itself. Preparing takes seconds there, so saves
must be further apart, and all variants run at the same time, each in two apps, on a machine with many cores.

Run: python -m tests.benchmarks.worker_readiness [--saves 8] [--rounds 2] [--gap 2] [--only VARIANT]
     python -m tests.benchmarks.worker_readiness --device cuda [--saves 4] [--gap 8]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.benchmarks.first_graph import SAMPLE, painted_time
from tests.benchmarks.gpu_saves import on_device
from tests.benchmarks.save_to_paint import MODEL, explorer_times

PACKAGE = Path(__file__).parents[2] / "tcexplore"

Change = tuple[str, str, str]
"""A module, a text in it, and what replaces the text."""

FRAME_ROOM: Change = ("worker/__main__.py", "call_with_frame_room(partial(_serve, argv))", "partial(_serve, argv)()")
PRIMED_SERVER: Change = (
    "worker/fork_server.py", "if self._prime and not accelerated:\n            self", "if False:\n            self",
)  # fmt: skip
WARM_UP: Change = ("worker/fork_server.py", "yield from priming.warm_steps(self._worker.threads)", "yield 0")
REHEARSAL: Change = ("worker/fork_server.py", "if command.rehearsal is not None:", "if False:")
REHEARSED_CODE: Change = ("worker/rehearsal.py", "if primed and time.monotonic()", "if False and time.monotonic()")

VARIANTS: dict[str, tuple[Change, ...]] = {
    "all": (),
    "without room for frames": (FRAME_ROOM,),
    "without the primed server": (PRIMED_SERVER,),
    "without warm-up of the process": (WARM_UP,),
    "without rehearsal": (REHEARSAL,),
    "without code in the rehearsal": (REHEARSED_CODE,),
    "without warm-up and rehearsal": (WARM_UP, REHEARSAL),
    "with none": (FRAME_ROOM, PRIMED_SERVER, WARM_UP, REHEARSAL),
}

PRIMING: Change = ("worker/fork_server.py", """yield from priming.prime_steps("cuda")""", "yield 0")

ON_GPU: dict[str, tuple[Change, ...]] = {
    "all": (),
    "without room for frames": (FRAME_ROOM,),
    "without priming of each process": (PRIMING,),
    "with none": (FRAME_ROOM, PRIMING),
}


def copy_package(folder: Path, changes: tuple[Change, ...]) -> None:
    """Copy the package into a folder, with changes. Raise a `ValueError` if a text is not there any more."""
    shutil.copytree(PACKAGE, folder / "tcexplore", ignore=shutil.ignore_patterns("__pycache__"))
    for module, old, new in changes:
        path = folder / "tcexplore" / module
        text = path.read_text()
        if text.count(old) != 1:
            raise ValueError(f"{module} has {text.count(old)} times {old!r}")
        path.write_text(text.replace(old, new))


def measure_on_gpu(device: str, saves: int, gap: float) -> None:
    """Print the medians of all variants on a GPU, measured at the same time."""
    model = on_device(MODEL, device)
    with tempfile.TemporaryDirectory(prefix="worker-readiness-") as name, ProcessPoolExecutor() as pool:
        for number, variant in enumerate(ON_GPU):
            copy_package(Path(name) / str(number), ON_GPU[variant])
        jobs = {
            (variant, pane): pool.submit(times_of_copy, Path(name) / str(number), saves, pane, gap, model)
            for number, variant in enumerate(ON_GPU)
            for pane in ("2", "5")
        }
        print(f"{'median':33}{'save to graph':>14}{'to code':>9}")
        for variant in ON_GPU:
            graph, code = (statistics.median(jobs[variant, pane].result()) for pane in ("2", "5"))
            print(f"{variant:33}{graph * 1e3:11.0f} ms{code * 1e3:6.0f} ms", flush=True)


def times_of_copy(copy: Path, saves: int, pane: str, gap: float, model: str) -> list[float]:
    """Return the seconds from each save until it is painted, by a copy of the package."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(copy), os.environ.get("PYTHONPATH", "")])
    return explorer_times(Path(tempfile.mkdtemp(dir=copy)), saves, pane, gap, model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saves", type=int, default=8, help="in each round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--gap", type=float, default=2.0, metavar="S", help="seconds between two saves")
    parser.add_argument("--only", choices=VARIANTS, action="append", help="measure this variant")
    parser.add_argument("--device", default="cpu", help="device of the model (default: cpu)")
    options = parser.parse_args()
    if options.device != "cpu":
        measure_on_gpu(options.device, options.saves, options.gap)
        return
    variants = options.only or list(VARIANTS)
    graphs: dict[str, list[float]] = defaultdict(list)
    codes: dict[str, list[float]] = defaultdict(list)
    starts: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="worker-readiness-") as name:
        for number, variant in enumerate(variants):
            copy_package(Path(name) / str(number), VARIANTS[variant])
        for _ in range(options.rounds):
            for number, variant in enumerate(variants):
                print(variant, flush=True)
                os.environ["PYTHONPATH"] = str(Path(name) / str(number))
                models = Path(tempfile.mkdtemp(dir=name))
                graphs[variant] += explorer_times(models, options.saves, "2", options.gap)
                codes[variant] += explorer_times(models, options.saves, "5", options.gap)
                starts[variant] += [painted_time(SAMPLE, "2", "linear") for _ in range(2)]
    print(f"{'median':33}{'save to graph':>14}{'to code':>9}{'start to graph':>16}")
    for variant in variants:
        graph, code, start = (statistics.median(times[variant]) for times in (graphs, codes, starts))
        print(f"{variant:33}{graph * 1e3:11.0f} ms{code * 1e3:6.0f} ms{start:14.2f} s")


if __name__ == "__main__":
    main()
