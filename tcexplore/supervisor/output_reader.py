"""What a run prints, read from a pipe: whole characters, gathered, and bounded when there is too much."""

from __future__ import annotations

import asyncio
import codecs
import io
import os
from collections.abc import Callable

from tcexplore.events import clean

GATHER_S = 0.04
"""Output is passed on this often at most."""

LARGEST = 262_144
"""Characters passed on at once; of more than that the oldest are left out, and it says so."""


class OutputReader:
    """Reads a pipe until it is closed; `take` gets cleaned text."""

    def __init__(self, descriptor: int, take: Callable[[str], None]) -> None:
        self._descriptor = descriptor
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=False)
        self._gathered: list[str] = []
        self._size = 0
        self._left_out = 0
        self._timer: asyncio.TimerHandle | None = None
        self.closed = asyncio.Event()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def close(self) -> None:
        """Stop reading; what was read is passed on."""
        if self.closed.is_set():
            return
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._gather(self._decoder.decode(b"", final=True))
        self.flush()
        self.closed.set()

    def _read(self) -> None:
        try:
            part = os.read(self._descriptor, 65_536)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part:
            self.close()
            return
        self._gather(self._decoder.decode(part))
        if self._timer is None:
            self._timer = self._loop.call_later(GATHER_S, self.flush)

    def _gather(self, text: str) -> None:
        self._gathered.append(text)
        self._size += len(text)
        while self._size - len(self._gathered[0]) > LARGEST:
            oldest = self._gathered.pop(0)
            self._size -= len(oldest)
            self._left_out += len(oldest)

    def flush(self) -> None:
        """Pass on what was gathered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        text, left_out = "".join(self._gathered), self._left_out
        self._gathered, self._size, self._left_out = [], 0, 0
        if left_out:
            text = f"[{left_out:,} characters left out: too much at once]\n" + text
        if text:
            self._take(clean(text))
