"""Time from process start to the first frame: tcexplore on a sample, and an empty Textual app with as many panes.

Run: python -m tests.benchmarks.first_frame
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from tests.terminal import Terminal

RUNS = 9
SAMPLE = str(Path(__file__).parents[2] / "samples" / "mlp.py")

_TCEXPLORE = [sys.executable, "-m", "tcexplore", SAMPLE]
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


def first_frame(command: list[str], text: str, bytecode: str) -> float:
    """Return the seconds from process start until `text` is on the screen, with bytecode cached as in an install."""
    env = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": bytecode}
    with Terminal(command, columns=160, rows=48, env=env) as terminal:
        painted = terminal.wait_for(text, 30) - terminal.started
        terminal.type("\x11")
        return painted


def main() -> None:
    """Print both medians and their ratio. The runs alternate, so that other load affects both."""
    explorer, empty = [], []
    with tempfile.TemporaryDirectory() as bytecode:
        for _ in range(RUNS + 1):
            explorer.append(first_frame(_TCEXPLORE, "1 Source", bytecode))
            empty.append(first_frame(_EMPTY, "pane 7", bytecode))
    ours, textual = statistics.median(explorer[1:]), statistics.median(empty[1:])
    sys.stdout.write(
        f"first frame: {ours * 1e3:.0f} ms; empty Textual app with 7 panes: {textual * 1e3:.0f} ms; "
        f"ratio {ours / textual:.2f}\n"
    )


if __name__ == "__main__":
    main()
