"""Time from the key for a fix until the verified fix is painted, for every break of the samples that has one.

tcexplore runs in a pseudo-terminal. The benchmark waits until the breaks pane says of every break whether it has a
verified fix, goes to each with the key for the next break, and presses the key for the fix.

Run: python -m tests.benchmarks.fix_to_paint [--sample mlp]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pyte

from tests.terminal import Terminal

SAMPLES = Path(__file__).parents[2] / "samples"

FIXABLE = ("mlp", "graph_breaks")
"""Samples whose breaks have fixes, without scripts."""

GOAL_S = 0.3

WAIT_S = 170.0
"""Maximum seconds until the fixes of a sample are verified."""

READY, PENDING, SHOWN = "✔ h", "not verified yet", "verified on"
READY_HERE = "fix ready (h)"
"""Text below the panes if the break under the cursor has a verified fix."""
COLUMNS, ROWS = 160, 50


class Emulated:
    """The text on the screen of a program in a pseudo-terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        self._fed = 0

    def read(self, seconds: float = 0.01) -> str:
        """Return the screen after the output that arrives within `seconds`."""
        self._terminal.read_once(seconds)
        self._stream.feed(self._terminal.painted[self._fed :])
        self._fed = len(self._terminal.painted)
        return "\n".join(self._screen.display)

    def wait_for(self, text: str, timeout: float, absent: str | None = None) -> float:
        """Wait until the screen has `text`, and not `absent`; return the time by `time.perf_counter()`.

        Raises `TimeoutError`.
        """
        end = time.perf_counter() + timeout
        while text not in (screen := self.read()) or (absent and absent in screen):
            if time.perf_counter() > end:
                raise TimeoutError(f"{text!r} is not on the screen within {timeout} s:\n{screen}")
        return time.perf_counter()

    def settle(self) -> str:
        """Return the screen once no output has arrived for a while."""
        while self._terminal.read_once(0.2):
            pass
        return self.read()


def times_of(sample: str) -> list[float]:
    """Return the seconds from the key until the fix is painted, for each break with a verified fix."""
    with tempfile.TemporaryDirectory(prefix="fix-to-paint-") as folder:
        file = shutil.copy(SAMPLES / f"{sample}.py", folder)
        command = [sys.executable, "-m", "tcexplore", file]
        with Terminal(command, columns=COLUMNS, rows=ROWS, cwd=folder) as terminal:
            screen = Emulated(terminal)
            terminal.type("3z")  # the breaks pane alone, with a line for each break
            screen.wait_for(READY, WAIT_S, absent=PENDING)
            fixes, times = screen.read().count(READY), list[float]()
            while len(times) < fixes:
                terminal.type("b")
                if not any(READY_HERE in line for line in screen.settle().splitlines()[-4:]):
                    continue  # a break without a fix
                start = time.perf_counter()
                terminal.type("h")
                times.append(screen.wait_for(SHOWN, 30.0) - start)
                terminal.type("h")
                screen.settle()
            return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", choices=FIXABLE, help="measure one sample")
    options = parser.parse_args()
    for sample in FIXABLE:
        if options.sample in (None, sample):
            figures = ", ".join(f"{seconds * 1e3:.0f}" for seconds in times_of(sample))
            print(f"{sample:14} {figures} ms (at most {GOAL_S * 1e3:.0f})", flush=True)


if __name__ == "__main__":
    main()
