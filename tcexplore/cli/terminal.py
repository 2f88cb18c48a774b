"""The terminal of a command: errors on stderr, questions, and whether the app can run in it."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress

from tcexplore.trust import Ask

USER_ERROR = 2
"""Exit status of an error in the user's file, arguments or output."""


def print_error(message: str, program: str = "tcexplore") -> None:
    """Print a message on stderr; control characters in it become visible. A closed terminal is ignored."""
    from tcexplore.events import clean

    with suppress(OSError):
        sys.stderr.write(f"{program}: {clean(message)}\n")


def refuse(message: str, program: str = "tcexplore") -> int:
    """Print a message on stderr, and return the exit status of an error of the user."""
    print_error(message, program)
    return USER_ERROR


# ---- questions, and whether the app can run


def terminal_ask() -> Ask | None:
    """Return a function that asks the user; None without a terminal."""
    terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
    return _ask if terminal else None


def _ask(question: str) -> bool | None:
    """Ask on the terminal; return None for the end of input."""
    from tcexplore.events import clean  # not imported before the first frame

    sys.stderr.write(f"{clean(question)} [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    return answer.strip().lower() in ("y", "yes") if answer else None


def terminal_problem() -> str | None:
    """Return why the app cannot run in this terminal; None if it can.

    Textual draws on stderr and reads keys from stdin: with a file or a pipe instead, it would hang or write escape
    sequences into a file.
    """
    if os.environ.get("TEXTUAL_DRIVER"):
        return None  # `tcexplore serve` sets it, and connects pipes
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout), ("stderr", sys.stderr)):
        if stream is None or not stream.isatty():
            return f"{name} is not a terminal"
    if os.environ.get("TERM") == "dumb":
        return "TERM=dumb cannot show a screen"
    return None


def hung_up() -> bool:
    """Return whether stdin is a terminal that was closed: it then no longer counts as a terminal."""
    try:
        import termios
    except ImportError:  # Windows
        return False
    try:
        termios.tcgetattr(0)
    except termios.error as error:
        return bool(error.args[0] == errno.EIO)
    return False
