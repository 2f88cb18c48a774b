"""One line on a terminal that says how far things have come."""

from __future__ import annotations

import shutil
import time
from typing import Self, TextIO

from tcexplore.session import Snapshot, summarise
from tcexplore.words.phases import PHASES

QUIET_S = 30.0
"""Seconds between two plain lines where no terminal is: a log says that it goes on, a quick run says nothing."""

ERASE = "\r\x1b[2K"


class Line:
    """A line that is rewritten in place and in the end erased; in a file, a plain one now and then.

    It is written only when what it says changes, so that it never disturbs a timing.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream is not None and stream.isatty()
        self._said = ""
        self._next_plain = QUIET_S
        self._start = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._stream.write(ERASE)
            self._stream.flush()

    def write(self, text: str) -> None:
        """Say this instead of what the line says now."""
        elapsed = time.monotonic() - self._start
        if text == self._said or (not self._live and elapsed < self._next_plain):
            return
        self._said = text
        line = f"tcexplore · {elapsed:.1f} s · {text}"
        if not self._live:
            self._next_plain = elapsed + QUIET_S
            print(line, file=self._stream, flush=True)
            return
        self._stream.write(ERASE + line[: shutil.get_terminal_size().columns - 1])
        self._stream.flush()

    def show(self, snapshot: Snapshot, before: str = "") -> None:
        """Say where a run is now, after what stands `before`."""
        summary, running = summarise(snapshot), snapshot.status == "running"
        graph = f" {snapshot.phase_graph}" if snapshot.phase_graph and running else ""
        doing = PHASES.get(snapshot.phase, snapshot.phase) if running else "done"
        found = f"{summary.graphs} graphs, {summary.breaks} breaks, {summary.kernels} kernels"
        self.write(f"{before + ' · ' if before else ''}{doing}{graph} · {found}")
