"""A time limit for code that may never end."""

from __future__ import annotations

import faulthandler
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

REPEAT_S = 0.5
"""Seconds until the alarm repeats if the code did not end."""

SOON_S = 0.001

GRACE_S = 10.0
"""Seconds after its time limit until a stage that ignores it ends the process."""

_crash: list[int] = []
"""The descriptor for crash tracebacks, if any."""


def report_crashes_to(descriptor: int) -> None:
    """Set the descriptor to which `process_limit` writes a traceback."""
    _crash[:] = [descriptor]


@contextmanager
def process_limit(seconds: float) -> Iterator[None]:
    """End the process `GRACE_S` after its time limit: native code may never return to Python. 0 for no limit."""
    limited = seconds and _crash
    if limited:
        faulthandler.dump_traceback_later(seconds + GRACE_S, exit=True, file=_crash[0])
    try:
        yield
    finally:
        if limited:
            faulthandler.cancel_dump_traceback_later()


class TimeLimitError(BaseException):
    """The time is over. No `except Exception` of the user's code catches it."""


@contextmanager
def without_time_limit() -> Iterator[None]:
    """Let no time count for the limits around it. For the main thread."""
    left_s, repeat_s = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        if left_s:
            signal.setitimer(signal.ITIMER_REAL, left_s, repeat_s)


@contextmanager
def time_limit(seconds: float, error: type[TimeLimitError] = TimeLimitError) -> Iterator[None]:
    """Raise `error` after `seconds`, and again until it ends the code; 0 for no limit.

    A limit within another one does not extend it. Threads other than the main thread have no limit.
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: object) -> None:
        raise error

    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    previous = signal.signal(signal.SIGALRM, ring)
    outer_s, repeat_s = signal.getitimer(signal.ITIMER_REAL)
    ends = time.monotonic() + outer_s
    signal.setitimer(signal.ITIMER_REAL, min(seconds, outer_s or seconds), REPEAT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        if outer_s:
            signal.setitimer(signal.ITIMER_REAL, max(SOON_S, ends - time.monotonic()), repeat_s)
