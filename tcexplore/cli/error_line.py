"""Errors on stderr, in one place, since they contain names of files and arguments."""

from __future__ import annotations

import sys
from contextlib import suppress


def print_error(message: str, program: str = "tcexplore") -> None:
    """Print a message on stderr; control characters in it become visible. A closed terminal is ignored."""
    from tcexplore.events.clean_text import clean

    with suppress(OSError):
        sys.stderr.write(f"{program}: {clean(message)}\n")
