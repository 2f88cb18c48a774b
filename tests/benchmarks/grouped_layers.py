"""Time of a key press in a run of 10,000 nodes in 400 equal layers, grouped by module, and in a small run.

Measured in a terminal of 160x50, from the key press to the last byte that the app writes: an arrow in the graph pane,
which selects a node in all panes, and Enter, which opens or closes the fold of 399 layers. Then the time to fold the
layers once, in this process.

Run: python -m tests.benchmarks.grouped_layers
"""

from __future__ import annotations

import statistics
import sys
import time

from tcexplore.documents.graph.graph_view import graph_document
from tcexplore.documents.graph.modules_view import modules_document
from tcexplore.ui.app import ExplorerApp
from tests import fakes
from tests.benchmarks.select_line import FinishedRun
from tests.snapshots import large
from tests.terminal import Terminal

NODES, KEYS = 10_000, 30
SILENCE_S = 0.3
"""Seconds without output after which a key press is complete."""

ARROWS = ("\x1b[B", "\x1b[A")
ENTER = "\r"


def show(name: str) -> None:
    """Run the app in this terminal."""
    run = large.layered(NODES) if name == "layers" else fakes.complete(1)
    app = ExplorerApp(lambda: FinishedRun(lambda: setattr(app, "session", fakes.session(run))))
    app.run()


def measure(name: str) -> dict[str, list[float]]:
    """Return the seconds that each press of a key takes in the graph pane."""
    with Terminal([sys.executable, "-m", __spec__.name, name], columns=160, rows=50) as terminal:
        terminal.wait_for("1 Source")
        terminal.read(3.0)
        terminal.type("2G")
        terminal.read(1.0)
        terminal.type("\x1b[A" * 1)
        terminal.read(SILENCE_S)
        arrows = [_measure_key(terminal, ARROWS[number % 2]) for number in range(KEYS)]
        return {"arrow": arrows, "enter": [_measure_key(terminal, ENTER) for _ in range(KEYS)]}


def _measure_key(terminal: Terminal, key: str) -> float:
    start = last = time.perf_counter()
    terminal.type(key)
    while terminal.read_once(SILENCE_S):
        last = time.perf_counter()
    return last - start


def main() -> None:
    """Print median and maximum of both, and the ratio."""
    run = large.layered(NODES)
    start = time.perf_counter()
    rows = len(graph_document(run, frozenset(), 120)), len(modules_document(run, frozenset(), 120))
    seconds = time.perf_counter() - start
    sys.stdout.write(f"{NODES} nodes: {rows[0]} rows of graph, {rows[1]} of modules, made in {seconds * 1e3:.0f} ms\n")
    measured = {name: measure(name) for name in ("layers", "small")}
    for key in ("arrow", "enter"):
        for name, label in (("layers", f"{NODES} nodes in layers"), ("small", "mlp")):
            times = measured[name][key]
            median, most = statistics.median(times) * 1e3, max(times) * 1e3
            sys.stdout.write(f"{key} {label:24} median {median:5.1f} ms, max {most:5.1f}\n")
        ratio = statistics.median(measured["layers"][key]) / statistics.median(measured["small"][key])
        sys.stdout.write(f"{key} ratio {ratio:.2f}\n")


if __name__ == "__main__":
    show(sys.argv[1]) if len(sys.argv) > 1 else main()
