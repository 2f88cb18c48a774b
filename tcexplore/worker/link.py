"""The worker's ends of its sockets: framed messages, some with file descriptors, and the commands to a run."""

from __future__ import annotations

import os
import queue
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from tcexplore.events import Event
from tcexplore.events.codec import HEADER, LARGEST, ProtocolError, encode
from tcexplore.events.commands import PauseTiming, RecompileQuery, Retarget, RunCommand, decode_run_command
from tcexplore.events.run_events import BROKEN_STATUS

CLOSED_S = 2.0
"""Seconds after which it is noticed that the program has closed the socket of its run."""

GONE = 0
"""Exit status of a worker whose front end is gone."""


class WireFrame(NamedTuple):
    """The body of one message and the file descriptors that came with it."""

    body: bytes
    descriptors: tuple[int, ...]


def receive(sock: socket.socket, descriptors: int = 0) -> WireFrame | None:
    """Return the next message, or None if the other side is gone. Raise `ProtocolError` if it is too large."""
    if descriptors:
        header, received, _, _ = socket.recv_fds(sock, HEADER.size, descriptors)
    else:
        header, received = sock.recv(HEADER.size), []
    rest = _exactly(sock, HEADER.size - len(header)) if header else None
    if rest is None:
        return None
    (size,) = HEADER.unpack(header + rest)
    if size > LARGEST:
        raise ProtocolError(f"a message of {size} bytes")
    body = _exactly(sock, size)
    return None if body is None else WireFrame(body, tuple(received))


def _exactly(sock: socket.socket, size: int) -> bytes | None:
    parts = []
    while size:
        part = sock.recv(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class Channel:
    """Sends records to the front end, from any thread. Ends the process if the front end is gone."""

    def __init__(self, sock: socket.socket, run: int = 0) -> None:
        self.sock = sock
        self.run = run
        self._lock = threading.Lock()
        # Bound here: the model file may replace `socket.socket.sendall` and `os._exit`.
        self._send_all = sock.sendall
        self._exit = os._exit

    def send(self, record: Any) -> None:
        """Send a record; an event gets this channel's run."""
        frame = encode(replace(record, run=self.run) if isinstance(record, Event) else record)
        try:
            with self._lock:
                self._send_all(frame)
        except OSError:
            self._exit(GONE)


class CommandQueue:
    """Commands that arrive on `sock`. The run's main thread takes them between two steps."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._exit = os._exit  # bound here, as in `Channel`
        self._received: queue.SimpleQueue[RunCommand] = queue.SimpleQueue()
        self._paused = False
        self._deferred: list[RunCommand] = []
        """Deferred commands."""

    def listen(self) -> None:
        """Receive commands until the other side disconnects or sends an invalid message."""
        with suppress(OSError, ProtocolError):
            while self._await_message() and (frame := receive(self._sock)) is not None:
                self._received.put(decode_run_command(frame.body))

    def _await_message(self) -> bool:
        """Wait for a message or the end of the other side. End the process if the program has closed this socket.

        A thread that waits in `recv` would keep the socket open although its descriptor is closed, so that the front
        end would wait for ever.
        """
        waiting = select.poll()
        waiting.register(self._sock, select.POLLIN)
        while not (events := waiting.poll(CLOSED_S * 1000)):
            pass
        ((_, event),) = events
        if event & select.POLLNVAL:
            self._exit(BROKEN_STATUS)
        return True

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

    def queries(self, *, wait: bool) -> Iterator[RecompileQuery]:
        """Yield the queries that have arrived, note a pause, and defer all other commands.

        Do not wait for more, or with `wait` only while timing is paused.
        """
        others: list[RunCommand] = []
        while (command := self._get(None if wait and self._paused else 0.0)) is not None:
            if isinstance(command, RecompileQuery):
                yield command
            elif isinstance(command, PauseTiming):
                self._paused = command.paused
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
