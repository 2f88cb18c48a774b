"""Time on a GPU from start, and from each save, until the graph is painted; the model is on CUDA.

The start is compared with a bare script's time to its first graph. The saves come 20 s, 3 s and 1 s apart; the first of
each kind is not counted. Finally, a process like a standby primes itself, and the time of each step and the modules
that it still had to import are printed. Every row is printed as soon as it is measured. It takes about 5 minutes.

Run: python -m tests.benchmarks.gpu_saves [--device cuda] [--starts 2]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.first_graph import bare_time, painted_time
from tests.benchmarks.save_to_paint import MODEL, atomic_save, constant
from tests.terminal import Terminal

GAPS: tuple[tuple[float, int, float], ...] = ((20.0, 4, 0.25), (3.0, 10, 0.35), (1.0, 10, 1.0))
"""Seconds between two saves, number of counted saves, and the goal for their median in seconds."""

FIRST_S = 30.0
"""Seconds after the first graph, in which the standbys get ready."""

STEPS = """\
import sys, time
from tcexplore.worker.loading import load
from tcexplore.worker import priming
def lap(name):
    global start
    print(f"  {name:34}{time.perf_counter() - start:8.2f} s", flush=True)
    start = time.perf_counter()
start = time.perf_counter()
worker = load(forks=True)
lap("import for the first graph")
print("  policy", worker.policy, flush=True)
for _ in priming.import_steps(True):
    pass
lap("import the rest")
import torch
print("  CUDA initialized by imports:", torch.cuda.is_initialized(), flush=True)
loaded = set(sys.modules)
for number, _ in enumerate(priming.prime_steps(sys.argv[1])):
    lap(f"priming step {number}")
late = sorted(set(sys.modules) - loaded)
print(f"  {len(late)} modules imported while priming:", *late, sep="\\n    ", flush=True)
"""


def model_text(device: str, index: int) -> str:
    return on_device(MODEL, device).replace("CONSTANT", constant(index))


def on_device(model: str, device: str) -> str:
    """Return a model file whose model and inputs are on a device."""
    return model.replace("MLP().eval()", f"MLP().eval().to('{device}')").replace("64),)", f"64, device='{device}'),)")


def measure_start(file: Path, starts: int) -> None:
    """Print the start of the app and of a bare script; the first pair fills the caches."""
    bare, painted = [], []
    for number in range(starts + 1):
        bare.append(bare_time(file))
        painted.append(painted_time(file, "2", "layer_norm"))
        print(f"  start {number}: bare {bare[-1]:.2f} s, tcexplore {painted[-1]:.2f} s", flush=True)
    script, app = statistics.median(bare[1:]), statistics.median(painted[1:])
    print(f"start to first graph    {app:6.2f} s   {app / script:5.2f} × bare script (at most 1.25)", flush=True)


def drain_until(terminal: Terminal, deadline: float) -> None:
    """Read the terminal's output until a time."""
    while (left := deadline - time.perf_counter()) > 0:
        terminal.read_once(min(left, 0.1))


def measure_saves(file: Path, device: str) -> None:
    """Print the time from save to painted graph, for each gap between saves."""
    index = 500
    file.write_text(model_text(device, index))
    command = [sys.executable, "-m", "tcexplore", str(file)]
    with Terminal(command, columns=90, rows=48, cwd=str(file.parent)) as terminal:
        terminal.wait_for("1 Source", 30)
        terminal.type("2")
        saved = terminal.wait_for("layer_norm", 120)
        drain_until(terminal, saved + FIRST_S)
        for gap, count, goal in GAPS:
            times = []
            for _ in range(count + 1):
                drain_until(terminal, saved + gap)
                terminal.forget()
                index += 1
                saved = atomic_save(file, model_text(device, index))
                times.append(terminal.wait_for(constant(index), 60) - saved)
            row = " ".join(f"{seconds:.2f}" for seconds in times[1:])
            median, worst = statistics.median(times[1:]), max(times[1:])
            title = f"saves {gap:2.0f} s apart"
            print(f"{title:24}median {median:5.2f} s (at most {goal}), worst {worst:.2f} s: {row}", flush=True)
        terminal.type("q")
        terminal.wait(10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--starts", type=int, default=2)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gpu-saves-"))
    try:
        file = folder / "model.py"
        file.write_text(model_text(options.device, 499))
        measure_start(file, options.starts)
        measure_saves(file, options.device)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("steps of a standby:", flush=True)
    subprocess.run([sys.executable, "-c", STEPS, options.device], check=False)


if __name__ == "__main__":
    main()
