"""One line on a terminal that says how far things have come."""

from __future__ import annotations

import shutil
import time
from typing import Self, TextIO

from tcexplore.session import Snapshot, summarise
from tcexplore.words.phases import PHASES

ERASE = "\r\x1b[2K"


class Line:
    """A line that is rewritten in place and in the end erased; nothing where no one looks.

    It is written only when what it says changes, so that it never disturbs a timing.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream is not None and stream.isatty()
        self._said = ""
        self._start = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._stream.write(ERASE)
            self._stream.flush()

    def write(self, text: str) -> None:
        """Say this instead of what the line says now."""
        if not self._live or text == self._said:
            return
        self._said = text
        line = f"tcexplore · {time.monotonic() - self._start:.1f} s · {text}"
        self._stream.write(ERASE + line[: shutil.get_terminal_size().columns - 1])
        self._stream.flush()

    def show(self, snapshot: Snapshot, before: str = "") -> None:
        """Say where a run is now, after what stands `before`."""
        summary = summarise(snapshot)
        graph = f" {snapshot.phase_graph}" if snapshot.phase_graph else ""
        found = f"{summary.graphs} graphs, {summary.breaks} breaks, {summary.kernels} kernels"
        self.write(f"{before + ' · ' if before else ''}{PHASES.get(snapshot.phase, snapshot.phase)}{graph} · {found}")
