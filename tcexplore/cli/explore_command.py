"""`tcexplore FILE`: the terminal app."""

from __future__ import annotations

import errno
import os
import sys

from tcexplore.cli.error_line import refuse
from tcexplore.cli.file_argument import BadFileError, check_path, model_pythons, split
from tcexplore.cli.request import Request


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


def explore(request: Request) -> int:
    """Open the app on the file until the user quits; return the exit status.

    The app also opens an empty or broken file, since the user can fix it. A missing file is an error.
    """
    try:
        path, name = split(request.target)
        check_path(path)
        pythons = model_pythons(request, path)
    except BadFileError as error:
        return refuse(error.sentence)
    from tcexplore.ui.run_app import Choices, run_app

    choices = Choices(request.standbys, request.history, request.target_given, request.appearance, pythons)
    return run_app(path, request.config, request.argv, name, choices)
