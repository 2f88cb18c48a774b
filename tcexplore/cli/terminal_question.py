"""A question that the user answers on the terminal, before the app begins."""

from __future__ import annotations

import sys

from tcexplore.trust import Ask


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
