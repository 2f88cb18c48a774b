"""How far things have come: one line that is rewritten on a terminal, a line now and then in a file or a pipe."""

from __future__ import annotations

import asyncio
import shutil
import time
from typing import Self, TextIO

from tcexplore.documents.empty_states import PHASES
from tcexplore.quantities import count
from tcexplore.session import Snapshot, summarize

PATIENCE_S = 1.0
"""Seconds that something takes before a log says that it is under way: what is quick is not worth a line."""

AGAIN_S = 30.0
"""Seconds without a line after which a log is told in any case how far things are."""

ERASE = "\r\x1b[2K"


class Line:
    """A line that is rewritten in place and in the end erased.

    It is written only when what it says changes, so that it never disturbs a timing.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._start = time.monotonic()
        self._said = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.write(ERASE)
        self._stream.flush()

    def write(self, text: str) -> None:
        """Say that this is under way."""
        self._say(text, text)

    def show(self, snapshot: Snapshot, before: str = "") -> None:
        """Say where a run is now, after what stands `before`."""
        summary, running = summarize(snapshot), snapshot.status == "running"
        graph = f" {snapshot.phase_graph}" if snapshot.phase_graph and running else ""
        doing = PHASES.get(snapshot.phase, snapshot.phase) if running else "done"
        found = (count(summary.graphs, "graph"), count(summary.breaks, "break"), count(summary.kernels, "kernel"))
        so_far = ", ".join(found) if snapshot.compiled or summary.breaks else ""
        self._say(" · ".join(filter(None, (before, doing + graph, so_far))), before or doing)

    def tell(self, text: str) -> None:
        """Say something that stays: a result."""
        self._stream.write(f"{ERASE}{self._stamped(text)}\n")
        self._stream.flush()
        self._said = ""

    def _say(self, text: str, about: str) -> None:  # noqa: ARG002 - a log asks what a text is about
        if text == self._said:
            return
        self._said = text
        self._stream.write(ERASE + self._stamped(text)[: shutil.get_terminal_size().columns - 1])
        self._stream.flush()

    def _stamped(self, text: str) -> str:
        return f"tcexplore · {time.monotonic() - self._start:.1f} s · {text}"


class Log(Line):
    """Lines for a file or a pipe: one for each thing that takes longer than `patience` seconds, while it is under way,
    and one whenever nothing was said for `AGAIN_S`. Only what an event loop waits for is told of."""

    def __init__(self, stream: TextIO | None, patience: float = PATIENCE_S) -> None:
        self._log, self._patience = stream, patience
        self._about = ""
        self._newest = self._start = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None

    def __exit__(self, *_: object) -> None:
        self._cancel()

    def tell(self, text: str) -> None:
        print(self._stamped(text), file=self._log, flush=True)
        self._newest = time.monotonic()

    def _say(self, text: str, about: str) -> None:
        self._said = text
        if about == self._about:
            return
        self._about = about
        self._wait(min(self._patience, self._newest + AGAIN_S - time.monotonic()))

    def _wait(self, seconds: float) -> None:
        self._cancel()
        try:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, seconds), self._write)
        except RuntimeError:
            self._timer = None

    def _write(self) -> None:
        self.tell(self._said)
        self._wait(AGAIN_S)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def progress(stream: TextIO | None) -> Line:
    """What tells a user at a terminal, or the reader of a log, how far things are; without a stream nobody."""
    return Line(stream) if stream is not None and stream.isatty() else Log(stream)
