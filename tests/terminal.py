"""A program in a real pseudo-terminal: for typing keys, waiting for text on the screen and counting bytes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_=>])")


LONGEST_PAINTED = 16_384
"""Bytes, with escape sequences, within which a text that `wait_for` waits for is painted."""


class Terminal:
    """`command` in a terminal of `columns` x `rows`; ends with its process group on exit.

    `written` counts the bytes that the program sent to the terminal.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 80,
        rows: int = 24,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        remembered = {"XDG_STATE_HOME": os.devnull}  # the app under test has no settings of earlier starts
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **remembered, **(env or {})}
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a background job; the program would inherit it
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, cwd=cwd, env=environment, start_new_session=True
        )
        os.close(slave)
        self.written = 0
        self._text = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.hang_up()

    def hang_up(self) -> None:
        """Close the terminal, as when its window is closed."""
        with contextlib.suppress(OSError):
            os.close(self._master)
        self._master = -1

    def resize(self, columns: int, rows: int) -> None:
        """Change the size; the program gets SIGWINCH."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        """Send keys."""
        os.write(self._master, keys.encode())

    def forget(self) -> None:
        """Discard previous output, so that `wait_for` only matches new output."""
        self.read(0)
        self._text = b""

    def read(self, seconds: float) -> int:
        """Read output until none arrives for `seconds`; return the number of bytes."""
        before = self.written
        while self.read_once(seconds):
            pass
        return self.written - before

    def read_once(self, seconds: float) -> int:
        """Read the output that arrives within `seconds`; return the number of bytes."""
        if not select.select([self._master], [], [], seconds)[0]:
            return 0
        try:
            data = os.read(self._master, 1 << 20)
        except OSError:  # the program ended and closed its side
            return 0
        self.written += len(data)
        self._text += data
        return len(data)

    def wait_for(self, text: str, timeout: float = 60.0) -> float:
        """Read until `text` is painted; return `time.perf_counter()` at that moment. Raises `TimeoutError`."""
        wanted, end, searched = text.encode(), time.perf_counter() + timeout, 0
        while wanted not in _ESCAPES.sub(b"", self._text[max(0, searched - LONGEST_PAINTED) :]):
            searched = len(self._text)
            left = end - time.perf_counter()
            if left <= 0 or not select.select([self._master], [], [], left)[0]:
                raise TimeoutError(f"{text!r} was not painted within {timeout} s; last: {self.tail()}")
            data = os.read(self._master, 1 << 16)
            self.written += len(data)
            self._text += data
        return time.perf_counter()

    def wait(self, timeout: float) -> int:
        """Read until the program ends; return its exit status. Raises `TimeoutError`."""
        end = time.perf_counter() + timeout
        while self.process.poll() is None:
            self.read(0.05)
            if time.perf_counter() > end:
                raise TimeoutError(f"still running after {timeout} s; last: {self.tail()}")
        self.read(0)
        return self.process.returncode

    @property
    def painted(self) -> bytes:
        """Every byte since `forget`, including escape sequences."""
        return self._text

    def tail(self) -> str:
        """Return the last painted text, for error messages."""
        return _ESCAPES.sub(b"", self._text)[-600:].decode(errors="replace")
