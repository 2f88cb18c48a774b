"""Process start to first frame: tcexplore on a sample, against an empty textual app with as many panes.

Run it: python -m tests.benchmarks.first_frame
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from tests.terminal import Terminal

RUNS = 9
SAMPLE = str(Path(__file__).parents[2] / "samples" / "mlp.py")

_OURS = [sys.executable, "-m", "tcexplore", SAMPLE]
_EMPTY = [sys.executable, "-c", """
from textual.app import App
from textual.containers import Grid
from textual.widgets import Static

class Empty(App):
    CSS = "Grid { grid-size: 3 3; } Static { border: round white; height: 1fr; }"

    def compose(self):
        with Grid():
            for number in range(1, 8):
                yield Static(f"pane {number}")

Empty().run()
"""]  # fmt: skip


def first_frame(command: list[str], sign: str, bytecode: str) -> float:
    """Seconds from the start of the process until `sign` stands on the screen; bytecode is kept as in an install."""
    env = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": bytecode}
    with Terminal(command, columns=160, rows=48, env=env) as terminal:
        painted = terminal.wait_for(sign, 30) - terminal.started
        terminal.type("\x11")
        return painted


def main() -> None:
    """Print both medians and the ratio; the runs take turns, so that a busy moment hits both."""
    ours, empty = [], []
    with tempfile.TemporaryDirectory() as bytecode:
        for _ in range(RUNS + 1):
            ours.append(first_frame(_OURS, "1 Source", bytecode))
            empty.append(first_frame(_EMPTY, "pane 7", bytecode))
    mine, theirs = statistics.median(ours[1:]), statistics.median(empty[1:])
    sys.stdout.write(
        f"first frame: {mine * 1e3:.0f} ms; empty textual app with 7 panes: {theirs * 1e3:.0f} ms; "
        f"{mine / theirs:.2f} times\n"
    )


if __name__ == "__main__":
    main()
