"""Whether there is a terminal to draw on."""

from __future__ import annotations

import os
import sys


def why_no_screen() -> str | None:
    """Why the app cannot run here, in words; None where it can.

    Textual draws on stderr and reads keys from stdin; with either elsewhere it would hang or write escape
    sequences into a file.
    """
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout), ("stderr", sys.stderr)):
        if stream is None or not stream.isatty():
            return f"{name} is not a terminal"
    if os.environ.get("TERM") == "dumb":
        return "TERM=dumb has no screen to draw on"
    return None
