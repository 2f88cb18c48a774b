"""The terminal: a driver that sends fewer bytes and never waits for the terminal, and the clipboard."""

from __future__ import annotations

import os
import re
import select
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple, TextIO

from textual import events
from textual.app import App
from textual.driver import Driver
from textual.geometry import Size
from textual.message import Message

LARGEST_COPY = 74_000
"""Bytes that terminals commonly accept in one OSC 52 sequence, before base64."""

_SGR = re.compile(r"(\x1b\[[0-9;:]*m)")
_RESET = "\x1b[0m"
_PART = 4096
"""Bytes of one write."""
_POLL_MS = 50
"""Milliseconds between two looks whether the app ends, while the terminal does not read."""


LARGEST_SIZE = (1000, 500)
"""Columns and rows of the largest screen. A terminal or a browser may claim any size, and each cell costs memory."""

MOST_WAITING = 1 << 20
"""Characters that wait for a terminal that does not read; then pictures are dropped, and the screen is painted anew."""

LONGEST_MODE = 64
"""Characters of a short text that is never dropped: it sets a mode of the terminal, and is no picture."""

CLOSE_S = 0.3
"""Seconds for the terminal to read what waits when the app ends."""

RESTORE = "\x1b[?2004l\x1b[?7h\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l\x1b[0m"
"""Leaves the modes that Textual's driver sets."""


def limited_size(width: Any, height: Any) -> tuple[int, int]:
    """Return a size of a terminal within the limits; 80 x 24 for what is no size."""
    try:
        columns, rows = int(width), int(height)
    except (TypeError, ValueError, OverflowError):
        return 80, 24
    return (min(columns, LARGEST_SIZE[0]), min(rows, LARGEST_SIZE[1])) if columns > 0 and rows > 0 else (80, 24)


class LimitedDriver(Driver):
    """A driver that minimizes styles, never waits for the terminal, and limits its size. A base before Textual's own.

    It resumes only after a suspension.
    """

    _file: TextIO | None = None
    """None for a test's driver, and for that of a browser."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.terminal = TerminalWriter(self._file, self._repaint) if self._file is not None else None
        size = self._get_terminal_size() if self._size is None and self.terminal is not None else self._size
        if size is not None and size != (limited := limited_size(*size)):
            self._size: tuple[int, int] | None = limited

    def write(self, data: str) -> None:
        if self.terminal is None:
            super().write(minimize_sgr(data))  # type: ignore[safe-super]
        else:
            self.terminal.write(minimize_sgr(data))

    def start_application_mode(self) -> None:
        if self.terminal is not None:
            self.terminal.start()
        super().start_application_mode()  # type: ignore[safe-super]

    def close(self) -> None:
        if self.terminal is not None:
            self.terminal.stop()
        super().close()

    def _repaint(self) -> None:
        """Paint the whole screen: some of it was dropped. Called in the thread that writes."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(partial(self._app.refresh, layout=True))

    def _get_terminal_size(self) -> tuple[int, int]:
        return limited_size(*super()._get_terminal_size())  # type: ignore[misc]

    def process_message(self, message: Message) -> None:
        if isinstance(message, events.Resize) and message.size != (limited := limited_size(*message.size)):
            message = events.Resize(Size(*limited), Size(*limited))
        super().process_message(message)

    def on_meta(self, packet_type: str, payload: dict[str, object]) -> None:
        """Handle a message of a browser."""
        if packet_type == "resize":
            width, height = limited_size(payload.get("width"), payload.get("height"))
            payload = {**payload, "width": width, "height": height}
        super().on_meta(packet_type, payload)  # type: ignore[misc]

    def _sigcont_application(self, *signal: Any) -> None:
        # A closing terminal sends SIGHUP and SIGCONT. If resumed then, the thread that reads keys would read the
        # end of input forever.
        if getattr(self, "_must_signal_resume", True):
            super()._sigcont_application(*signal)  # type: ignore[misc]


@cache
def limited_driver(driver: type[Driver]) -> type[Driver]:
    """Return a driver class with the limits."""
    return type("LimitedTerminalDriver", (LimitedDriver, driver), {})


class TerminalWriter:
    """Writes to the terminal in a thread, so that the app never waits for a terminal that does not read.

    Textual's own writer blocks the app once 30 texts wait, and forever once an error has ended its thread.
    """

    def __init__(self, file: TextIO, repaint: Callable[[], None]) -> None:
        """`repaint` is called after pictures were dropped, once the terminal reads again."""
        self._terminal = self._descriptor = file.fileno()
        """The terminal, and what is written to: the terminal without waiting, if it can be opened again."""
        self._encoding = file.encoding or "utf-8"
        self._repaint = repaint
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque()
        self._size = 0
        """Characters that wait."""
        self._dropped = False
        self._stopping = False
        self._abandoned = False
        """Whether what waits is no longer written."""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to write."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._stopping = self._abandoned = False
        with suppress(OSError):  # it belongs to another user, or it is none
            self._descriptor = open_again(self._terminal)
        self._thread = threading.Thread(target=self._run, name="terminal output", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        """Write a text soon; return at once."""
        with self._changed:
            if self._waiting and self._size + len(text) > MOST_WAITING:
                self._drop()
                if len(text) > LONGEST_MODE:
                    return
            self._waiting.append(text)
            self._size += len(text)
            self._changed.notify()

    def _drop(self) -> None:
        """Drop the pictures that wait."""
        self._waiting = deque(text for text in self._waiting if len(text) <= LONGEST_MODE)
        self._size = sum(map(len, self._waiting))
        self._dropped = True

    def stop(self) -> None:
        """Write what waits, and stop. A terminal that does not read loses it, except what restores its modes."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is None:
            return
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            with self._changed:
                self._waiting.clear()
            self._abandoned = True
            discard_unread(self._terminal)  # so that a write under way returns
            self._thread.join(CLOSE_S)
            restore_terminal(self._terminal)

    def _run(self) -> None:
        self._write_all()
        if self._descriptor != self._terminal:
            os.close(self._descriptor)
            self._descriptor = self._terminal

    def _write_all(self) -> None:
        """Write until the app stops."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopping)
                if not self._waiting:
                    return
                text = "".join(self._waiting)
                self._waiting.clear()
                self._size = 0
            try:
                self._put(text.encode(self._encoding, "replace"))
            except OSError:  # the terminal was closed: nothing more is written
                self._abandoned = True
            if self._dropped:
                self._dropped = False
                self._repaint()

    def _put(self, data: bytes) -> None:
        """Write bytes in parts, so that the rest is dropped if the app ends meanwhile."""
        view = memoryview(data)
        writable = select.poll()
        writable.register(self._descriptor, select.POLLOUT)
        while view and not self._abandoned:
            if writable.poll(_POLL_MS):
                with suppress(BlockingIOError):
                    view = view[os.write(self._descriptor, view[:_PART]) :]


def open_again(descriptor: int) -> int:
    """Return a new descriptor of a terminal whose writes never wait. Raises `OSError`.

    To change the mode of the old one would change it for all who have the terminal open, the shell included.
    """
    return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def discard_unread(descriptor: int) -> None:
    """Discard what a terminal has not read, also if Ctrl-S stopped it."""
    with suppress(ImportError):
        import termios

        with suppress(termios.error):
            termios.tcflow(descriptor, termios.TCOON)
            termios.tcflush(descriptor, termios.TCOFLUSH)


def restore_terminal(descriptor: int, attributes: list[Any] | None = None) -> None:
    """Restore a terminal that may not read: discard what it has not read, and leave the app's modes. Never wait."""
    discard_unread(descriptor)
    with suppress(ImportError, OSError):
        import termios

        if attributes is not None:
            with suppress(termios.error):
                termios.tcsetattr(descriptor, termios.TCSANOW, attributes)
        again = open_again(descriptor)
        try:
            os.write(again, RESTORE.encode())
        finally:
            os.close(again)


def terminal_closed() -> bool:
    """Return whether the other end of the terminal is closed. Not every terminal sends SIGHUP then."""
    try:
        poll = select.poll()
        poll.register(0, select.POLLIN)
        return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))
    except (OSError, ValueError):
        return False


def copy(app: App[Any], text: str) -> str:
    """Copy the text with OSC 52, or to a file if it is too large for terminals; return a message for the user."""
    size = len(text.encode("utf-8", "replace"))
    if size <= LARGEST_COPY:
        app.copy_to_clipboard(text)
        lines = text.count("\n") + 1
        return f"Copied {lines} lines." if lines > 1 else "Copied."
    handle, path = tempfile.mkstemp(prefix="tcexplore-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return f"{size // 1000} kB is too much for the clipboard of a terminal; written to {path}"


class _State(NamedTuple):
    """Active colors, as sequences of codes, and other attributes."""

    foreground: str = ""
    background: str = ""
    attributes: frozenset[str] = frozenset()


_PLAIN = _State()


def minimize_sgr(text: str) -> str:
    """Return the same screen content in fewer bytes: only changes of style are sent, without resets around each word.

    A frame of Textual has 1.6 to 2 times as many bytes (measured at 80x24 and 160x50), which are felt on a slow
    connection. The text begins and ends without a style, as Textual's frames do.
    """
    if "\x1b[" not in text:
        return text
    sent: list[str] = []
    now = wanted = _PLAIN
    for piece in _SGR.split(text):
        if _SGR.fullmatch(piece):
            wanted = _after(wanted, piece)
        elif piece:
            if wanted != now:
                sent.append(_change(now, wanted))
                now = wanted
            sent.append(piece)
    if now != _PLAIN:
        sent.append(_RESET)
    return "".join(sent)


@lru_cache(maxsize=4096)
def _after(state: _State, sequence: str) -> _State:
    """Return the state after a sequence."""
    foreground, background, attributes = state
    codes = sequence[2:-1].replace(":", ";").split(";")
    while codes:
        code = codes.pop(0)
        if code in ("", "0"):
            foreground, background, attributes = _PLAIN
        elif code in ("38", "48"):
            rest = 4 if codes[:1] == ["2"] else 2
            color = ";".join([code, *codes[:rest]])
            codes = codes[rest:]
            foreground, background = (color, background) if code == "38" else (foreground, color)
        elif len(code) > 1 and code[:-1] in ("3", "9"):
            foreground = code
        elif len(code) > 1 and code[:-1] in ("4", "10"):
            background = code
        else:
            attributes |= {code}
    return _State(foreground, background, attributes)


@lru_cache(maxsize=4096)
def _change(now: _State, wanted: _State) -> str:
    """Return the shortest sequence from one state to another; switching anything off requires a reset."""
    off = (
        now.attributes - wanted.attributes
        or (now.foreground and not wanted.foreground)
        or (now.background and not wanted.background)
    )
    codes = ["0"] if off else []
    base = _PLAIN if off else now
    codes += sorted(wanted.attributes - base.attributes)
    codes += [wanted.foreground] if wanted.foreground and wanted.foreground != base.foreground else []
    codes += [wanted.background] if wanted.background and wanted.background != base.background else []
    return f"\x1b[{';'.join(codes)}m"
