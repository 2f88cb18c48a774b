"""The terminal: a driver that sends fewer bytes and exits when the terminal closes, and the clipboard."""

from __future__ import annotations

import os
import re
import select
import tempfile
from contextlib import suppress
from functools import cache, lru_cache
from typing import IO, Any, NamedTuple

from textual.app import App
from textual.driver import Driver

LARGEST_COPY = 74_000
"""Bytes that terminals commonly accept in one OSC 52 sequence, before base64."""

_SGR = re.compile(r"(\x1b\[[0-9;:]*m)")
_RESET = "\x1b[0m"


@cache
def minimizing_driver(driver: type[Driver]) -> type[Driver]:
    """Return a driver class that minimizes styles, survives a closed terminal, and resumes only after a suspension."""

    class MinimizingDriver(driver):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            file: IO[str] | None = getattr(self, "_file", None)  # a test's driver has none
            if file is not None:
                self._file = ClosableFile(file)

        def write(self, data: str) -> None:
            super().write(minimize_sgr(data))

        def _sigcont_application(self, *signal: Any) -> None:
            # A closing terminal sends SIGHUP and SIGCONT. If resumed then, the thread that reads keys would read the
            # end of input forever.
            if getattr(self, "_must_signal_resume", True):
                super()._sigcont_application(*signal)

    return MinimizingDriver


class ClosableFile:
    """The terminal's file, which drops what is written after the terminal was closed.

    An error would end Textual's thread that writes, and then its full queue would block the app forever.
    """

    def __init__(self, file: IO[str]) -> None:
        self._terminal = file

    def write(self, text: str) -> int:
        """Write text."""
        with suppress(OSError):
            return self._terminal.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the text."""
        with suppress(OSError):
            self._terminal.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._terminal, name)


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

    On a slow connection styles are more than half of the cost of a page. The text begins and ends without a style, as
    Textual's frames do.
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
