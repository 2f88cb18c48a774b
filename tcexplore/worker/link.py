"""The worker's ends of its sockets: framed messages, some with file descriptors."""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import replace
from typing import Any, NamedTuple

from tcexplore.events import HEADER, LARGEST, Event, ProtocolError, encode

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

    def send(self, record: Any) -> None:
        """Send a record; an event gets this channel's run."""
        frame = encode(replace(record, run=self.run) if isinstance(record, Event) else record)
        try:
            with self._lock:
                self.sock.sendall(frame)
        except OSError:
            os._exit(GONE)
