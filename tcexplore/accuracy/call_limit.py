"""Calls with inputs that the user never thought of may never end: a limit for them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TooLongError(BaseException):
    """A call took longer than it was given; no `except Exception` of the user's holds it up."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `TooLongError` in what is done inside once it has taken so many seconds.

    Only the main thread can be interrupted; in any other there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
