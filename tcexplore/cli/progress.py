"""One line on a terminal that says how far a run has come."""

from __future__ import annotations

import shutil
import time
from typing import TextIO

from tcexplore.session import Snapshot
from tcexplore.session.summary import summarise

ERASE = "\r\x1b[2K"

WORDS = {
    "": "starting the worker",
    "importing": "importing the file",
    "eager": "running eagerly",
    "dynamo": "Dynamo",
    "aot": "AOTAutograd",
    "inductor": "Inductor",
    "compiler": "C++ or Triton compiler",
    "backward": "backward",
    "timing": "timing",
}


class Progress:
    """Shows the phase of a run in one line that is rewritten and in the end erased; nothing where no one looks.

    It is written only when what it says changes, so that it never disturbs the timing.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream is not None and stream.isatty()
        self._said = ""
        self._start = time.monotonic()

    def __enter__(self) -> Progress:
        self._write(WORDS[""])
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._stream.write(ERASE)
            self._stream.flush()

    def show(self, snapshot: Snapshot) -> None:
        """Say where the run is now."""
        if self._live:
            summary = summarise(snapshot)
            graph = f" {snapshot.phase_graph}" if snapshot.phase_graph else ""
            found = f"{summary.graphs} graphs, {summary.breaks} breaks, {summary.kernels} kernels"
            self._write(f"{WORDS.get(snapshot.phase, snapshot.phase)}{graph} · {found}")

    def _write(self, text: str) -> None:
        if not self._live or text == self._said:
            return
        self._said = text
        line = f"tcexplore · {time.monotonic() - self._start:.1f} s · {text}"
        self._stream.write(ERASE + line[: shutil.get_terminal_size().columns - 1])
        self._stream.flush()
