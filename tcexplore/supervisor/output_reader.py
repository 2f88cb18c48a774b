"""Read the output of a process from a pipe: whole characters, in batches of bounded size."""

from __future__ import annotations

import asyncio
import codecs
import io
import os
from collections.abc import Callable

from tcexplore.events import clean

BATCH_S = 0.04
"""Minimum seconds between two batches."""

LARGEST = 262_144
"""Maximum characters in a batch; the oldest are dropped and counted in the text."""


class OutputReader:
    """Reads a pipe until it is closed, and calls `emit` with cleaned text."""

    def __init__(self, descriptor: int, emit: Callable[[str], None]) -> None:
        self._descriptor = descriptor
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=False)
        self._batch: list[str] = []
        self._size = 0
        self._dropped = 0
        self._timer: asyncio.TimerHandle | None = None
        self.closed = asyncio.Event()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def close(self) -> None:
        """Stop reading, and flush."""
        if self.closed.is_set():
            return
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._add(self._decoder.decode(b"", final=True))
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
        self._add(self._decoder.decode(part))
        if self._timer is None:
            self._timer = self._loop.call_later(BATCH_S, self.flush)

    def _add(self, text: str) -> None:
        self._batch.append(text)
        self._size += len(text)
        while self._size - len(self._batch[0]) > LARGEST:
            oldest = self._batch.pop(0)
            self._size -= len(oldest)
            self._dropped += len(oldest)

    def flush(self) -> None:
        """Emit the batch."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        text, dropped = "".join(self._batch), self._dropped
        self._batch, self._size, self._dropped = [], 0, 0
        if dropped:
            text = f"[{dropped:,} characters dropped: too much output at once]\n" + text
        if text:
            self._emit(clean(text))
