"""A program in a real pseudo-terminal: type keys, wait for text on the screen, count bytes."""

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


class Terminal:
    """`command` in a terminal of `columns` x `rows`; ended with its whole process group on leaving.

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
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **(env or {})}
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
        """Close the terminal, as a window that is closed or a line that is cut."""
        with contextlib.suppress(OSError):
            os.close(self._master)
        self._master = -1

    def type(self, keys: str) -> None:
        """Send keys as a terminal would."""
        os.write(self._master, keys.encode())

    def forget(self) -> None:
        """Drop what was painted so far: `wait_for` then finds only what is painted from now on."""
        self.read(0)
        self._text = b""

    def read(self, seconds: float) -> int:
        """Take what the program writes until `seconds` of silence; returns the bytes read."""
        before = self.written
        while self.read_once(seconds):
            pass
        return self.written - before

    def read_once(self, seconds: float) -> int:
        """Wait for something within `seconds`, and take it; returns the bytes read."""
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
        """Read until `text` was painted; returns `time.perf_counter()` of that moment. Raises `TimeoutError`."""
        wanted, end = text.encode(), time.perf_counter() + timeout
        while wanted not in _ESCAPES.sub(b"", self._text):
            left = end - time.perf_counter()
            if left <= 0 or not select.select([self._master], [], [], left)[0]:
                raise TimeoutError(f"{text!r} was not painted within {timeout} s; last: {self.tail()}")
            data = os.read(self._master, 1 << 16)
            self.written += len(data)
            self._text += data
        return time.perf_counter()

    def wait(self, timeout: float) -> int:
        """The program's exit status, once it has ended; reads on meanwhile. Raises `TimeoutError`."""
        end = time.perf_counter() + timeout
        while self.process.poll() is None:
            self.read(0.05)
            if time.perf_counter() > end:
                raise TimeoutError(f"still running after {timeout} s; last: {self.tail()}")
        self.read(0)
        return self.process.returncode

    @property
    def painted(self) -> bytes:
        """Every byte since `forget`, escape sequences included."""
        return self._text

    def tail(self) -> str:
        """The last text painted, for error messages."""
        return _ESCAPES.sub(b"", self._text)[-600:].decode(errors="replace")
