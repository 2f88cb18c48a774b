"""Errors on stderr, in one place, since they contain names of files and arguments."""

from __future__ import annotations

import sys
from contextlib import suppress

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
