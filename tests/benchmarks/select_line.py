"""Selecting a line of the model until every pane shows what belongs to it: a large run against a small one.

In a real terminal of 160x50: from the key press until the last byte that it makes the app write.

Run it: python -m tests.benchmarks.select_line
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
"""Nothing more belongs to a key when the app has been silent for so long."""


class Finished(FakeEngine):
    """Has a finished run from the start, and makes no other."""

    def __init__(self, show: Callable[[], None]) -> None:
        super().__init__()
        self._show = show

    async def start(self, deliver: Deliver) -> None:
        await super().start(deliver)
        self._show()


def show(name: str) -> None:
    """The program in the terminal."""
    run = large.lowered(NODES, KERNELS) if name == "large" else fakes.complete(1)
    app = ExplorerApp(lambda: Finished(lambda: setattr(app, "session", fakes.session(run))))
    app.run()


def measure(name: str) -> list[float]:
    """Seconds that each of `KEYS` presses of the arrow takes, in the source pane."""
    with Terminal([sys.executable, "-m", __spec__.name, name], columns=160, rows=50) as terminal:
        terminal.wait_for("1 Source")
        terminal.read(3.0)
        terminal.type("1g")
        terminal.read(SILENCE_S)
        return [_pressed(terminal) for _ in range(KEYS)]


def _pressed(terminal: Terminal) -> float:
    began = last = time.perf_counter()
    terminal.type("\x1b[B")
    while terminal.read_once(SILENCE_S):
        last = time.perf_counter()
    return last - began


def main() -> None:
    """Print the median and the longest of both, and their ratio."""
    taken = {name: measure(name) for name in ("large", "small")}
    for name, what in (("large", f"{NODES} nodes, {KERNELS} kernels"), ("small", "a perceptron")):
        times = taken[name]
        sys.stdout.write(
            f"{what:28} median {statistics.median(times) * 1e3:5.1f} ms, longest {max(times) * 1e3:5.1f}\n"
        )
    ratio = statistics.median(taken["large"]) / statistics.median(taken["small"])
    sys.stdout.write(f"{ratio:.2f} times the small one's\n")


if __name__ == "__main__":
    show(sys.argv[1]) if len(sys.argv) > 1 else main()
