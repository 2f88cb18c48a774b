"""What the front end asks of a run after its job: the code for another target, a pause, an answer."""

from __future__ import annotations

import queue
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

from tcexplore.events import ProtocolError
from tcexplore.events.commands import PauseTiming, RecompileQuery, Retarget, RunCommand, decode_run_command
from tcexplore.worker.link import receive


class CommandQueue:
    """Orders as they arrive on `sock`; taken by the run's own thread, between two things that it does."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._asked: queue.SimpleQueue[RunCommand] = queue.SimpleQueue()
        self._held = False
        self._kept: list[RunCommand] = []
        """What was read before its turn."""

    def listen(self) -> None:
        """Take orders until the other side is gone or sends what is none."""
        with suppress(OSError, ProtocolError):
            while (frame := receive(self._sock)) is not None:
                self._asked.put(decode_run_command(frame.body))

    def wait(self, seconds: float = 0.0) -> Retarget | RecompileQuery | None:
        """Return the next `RecompileQuery`, else the last `Retarget`.

        Wait up to `seconds` for one, and longer while timing is paused.
        """
        until = time.monotonic() + seconds
        found: Retarget | None = None
        while (asked := self._next(found, until)) is not None:
            if isinstance(asked, PauseTiming):
                self._held = asked.held
            elif isinstance(asked, Retarget):
                found = asked
            elif found is None:
                return asked
            else:
                self._kept.append(asked)
                break
        return found

    def questions(self) -> Iterator[RecompileQuery]:
        """The questions that have come; everything else is kept for its turn, and nothing is waited for."""
        others: list[RunCommand] = []
        while (asked := self._get(0.0)) is not None:
            if isinstance(asked, RecompileQuery):
                yield asked
            else:
                others.append(asked)
        self._kept += others

    def _next(self, found: Retarget | None, until: float) -> RunCommand | None:
        if found is not None:
            return self._get(0.0)
        return self._get(None if self._held else max(until - time.monotonic(), 0.0))

    def _get(self, seconds: float | None) -> RunCommand | None:
        """The next order within so many seconds; None waits for it."""
        if self._kept:
            return self._kept.pop(0)
        try:
            return self._asked.get(block=seconds != 0.0, timeout=seconds)
        except queue.Empty:
            return None
