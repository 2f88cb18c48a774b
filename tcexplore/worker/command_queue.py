"""The commands that the front end sends to a run after its job."""

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
    """Commands that arrive on `sock`. The run's main thread takes them between two steps."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._received: queue.SimpleQueue[RunCommand] = queue.SimpleQueue()
        self._paused = False
        self._deferred: list[RunCommand] = []
        """Deferred commands."""

    def listen(self) -> None:
        """Receive commands until the other side disconnects or sends an invalid message."""
        with suppress(OSError, ProtocolError):
            while (frame := receive(self._sock)) is not None:
                self._received.put(decode_run_command(frame.body))

    def wait(self, seconds: float = 0.0) -> Retarget | RecompileQuery | None:
        """Return the next `RecompileQuery`, or else the last `Retarget`.

        Wait up to `seconds` for one, and longer while timing is paused.
        """
        deadline = time.monotonic() + seconds
        retarget: Retarget | None = None
        while (command := self._next(retarget, deadline)) is not None:
            if isinstance(command, PauseTiming):
                self._paused = command.paused
            elif isinstance(command, Retarget):
                retarget = command
            elif retarget is None:
                return command
            else:
                self._deferred.append(command)
                break
        return retarget

    def queries(self) -> Iterator[RecompileQuery]:
        """Yield the queries that have arrived, without waiting, and defer all other commands."""
        others: list[RunCommand] = []
        while (command := self._get(0.0)) is not None:
            if isinstance(command, RecompileQuery):
                yield command
            else:
                others.append(command)
        self._deferred += others

    def _next(self, retarget: Retarget | None, deadline: float) -> RunCommand | None:
        if retarget is not None:
            return self._get(0.0)
        return self._get(None if self._paused else max(deadline - time.monotonic(), 0.0))

    def _get(self, seconds: float | None) -> RunCommand | None:
        """Return the next command within `seconds`; None waits forever."""
        if self._deferred:
            return self._deferred.pop(0)
        try:
            return self._received.get(block=seconds != 0.0, timeout=seconds)
        except queue.Empty:
            return None
