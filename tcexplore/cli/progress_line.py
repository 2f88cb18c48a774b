"""Progress: one line that is rewritten on a terminal, a line now and then in a file or a pipe."""

from __future__ import annotations

import asyncio
import shutil
import time
from typing import Self, TextIO

from tcexplore.documents.empty_states import PHASES
from tcexplore.quantities import count
from tcexplore.session import Snapshot, summarize

PATIENCE_S = 1.0
"""Seconds that a step takes before a log has a line about it: quick steps are not worth one."""

AGAIN_S = 30.0
"""Maximum seconds between two lines of a log."""

ERASE = "\r\x1b[2K"


class Line:
    """A line that is rewritten in place and finally erased.

    It is written only when its text changes, so that it does not disturb timing.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._start = time.monotonic()
        self._text = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.write(ERASE)
        self._stream.flush()

    def write(self, text: str) -> None:
        """Show what is under way."""
        self._update(text, text)

    def show(self, snapshot: Snapshot, prefix: str = "") -> None:
        """Show the progress of a run, after a prefix."""
        summary, running = summarize(snapshot), snapshot.status == "running"
        graph = f" {snapshot.phase_graph}" if snapshot.phase_graph and running else ""
        phase = PHASES.get(snapshot.phase, snapshot.phase) if running else "done"
        counts = (count(summary.graphs, "graph"), count(summary.breaks, "break"), count(summary.kernels, "kernel"))
        so_far = ", ".join(counts) if snapshot.compiled or summary.breaks else ""
        self._update(" · ".join(filter(None, (prefix, phase + graph, so_far))), prefix or phase)

    def print_line(self, text: str) -> None:
        """Print a line that stays: a result."""
        self._stream.write(f"{ERASE}{self._stamped(text)}\n")
        self._stream.flush()
        self._text = ""

    def _update(self, text: str, step: str) -> None:  # noqa: ARG002 - a log needs the step
        if text == self._text:
            return
        self._text = text
        self._stream.write(ERASE + self._stamped(text)[: shutil.get_terminal_size().columns - 1])
        self._stream.flush()

    def _stamped(self, text: str) -> str:
        return f"tcexplore · {time.monotonic() - self._start:.1f} s · {text}"


class Log(Line):
    """Lines for a file or a pipe: one for each step that takes longer than `patience` seconds, and one at least every
    `AGAIN_S` seconds. It writes only while an event loop runs."""

    def __init__(self, stream: TextIO | None, patience: float = PATIENCE_S) -> None:
        self._log, self._patience = stream, patience
        self._step = ""
        self._newest = self._start = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None

    def __exit__(self, *_: object) -> None:
        self._cancel()

    def print_line(self, text: str) -> None:
        print(self._stamped(text), file=self._log, flush=True)
        self._newest = time.monotonic()

    def _update(self, text: str, step: str) -> None:
        self._text = text
        if step == self._step:
            return
        self._step = step
        self._wait(min(self._patience, self._newest + AGAIN_S - time.monotonic()))

    def _wait(self, seconds: float) -> None:
        self._cancel()
        try:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, seconds), self._write)
        except RuntimeError:
            self._timer = None

    def _write(self) -> None:
        self.print_line(self._text)
        self._wait(AGAIN_S)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def progress(stream: TextIO | None) -> Line:
    """Return a line for a terminal, else a log."""
    return Line(stream) if stream is not None and stream.isatty() else Log(stream)
