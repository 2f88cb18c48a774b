"""A time limit for code that may never end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

REPEAT_S = 0.5
"""Seconds until the alarm repeats if the code did not end."""


class TimeLimitError(BaseException):
    """The time is over. No `except Exception` of the user's code catches it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeLimitError` in the main thread after `seconds`, and again until it ends the code; 0 for no limit."""
    if not seconds:
        yield
        return

    def ring(*_: object) -> None:
        raise TimeLimitError

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, REPEAT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
