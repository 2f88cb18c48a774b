"""Time from selecting a source line until every pane has highlighted it, in a large run and in a small one.

Measured in a terminal of 160x50, from the key press to the last byte that the app writes.

Run: python -m tests.benchmarks.select_line
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.engine import Deliver
from tests import fakes
from tests.snapshots import large
from tests.terminal import Terminal
from tests.ui.app_under_test import FakeEngine

NODES, KERNELS, KEYS = 10_000, 300, 40
SILENCE_S = 0.3
"""Seconds without output after which a key press is complete."""


class FinishedRun(FakeEngine):
    """An engine with a finished run from the start."""

    def __init__(self, show: Callable[[], None]) -> None:
        super().__init__()
        self._show = show

    async def start(self, deliver: Deliver) -> None:
        await super().start(deliver)
        self._show()


def show(name: str) -> None:
    """Run the app in this terminal."""
    run = large.lowered(NODES, KERNELS) if name == "large" else fakes.complete(1)
    app = ExplorerApp(lambda: FinishedRun(lambda: setattr(app, "session", fakes.session(run))))
    app.run()


def measure(name: str) -> list[float]:
    """Return the seconds that each press of the arrow takes in the source pane."""
    with Terminal([sys.executable, "-m", __spec__.name, name], columns=160, rows=50) as terminal:
        terminal.wait_for("1 Source")
        terminal.read(3.0)
        terminal.type("1g")
        terminal.read(SILENCE_S)
        return [_measure_key(terminal) for _ in range(KEYS)]


def _measure_key(terminal: Terminal) -> float:
    start = last = time.perf_counter()
    terminal.type("\x1b[B")
    while terminal.read_once(SILENCE_S):
        last = time.perf_counter()
    return last - start


def main() -> None:
    """Print median and maximum of both, and the ratio."""
    measured = {name: measure(name) for name in ("large", "small")}
    for name, label in (("large", f"{NODES} nodes, {KERNELS} kernels"), ("small", "mlp")):
        times = measured[name]
        sys.stdout.write(f"{label:28} median {statistics.median(times) * 1e3:5.1f} ms, max {max(times) * 1e3:5.1f}\n")
    ratio = statistics.median(measured["large"]) / statistics.median(measured["small"])
    sys.stdout.write(f"ratio {ratio:.2f}\n")


if __name__ == "__main__":
    show(sys.argv[1]) if len(sys.argv) > 1 else main()
