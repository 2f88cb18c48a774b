"""Run a user's script to its end, or for a limited time."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tcexplore.capture.hooks import Emit
from tcexplore.events import ScriptEnded

REPEAT_S = 0.5
"""Seconds until the alarm repeats if the script did not end."""


class TimeLimitError(BaseException):
    """Ends the user's code. No `except Exception` of that code catches it."""


def run_script(script: Callable[[], Any], limit: float, emit_calls: Callable[[], None], emit: Emit) -> None:
    """Run `script`, for at most `limit` seconds unless that is 0; then emit its last calls and a `ScriptEnded`.

    Propagate exceptions of the script, except for an exit with status 0.
    """
    start, limited = time.perf_counter(), False
    try:
        with time_limit(limit):
            script()
    except SystemExit as error:
        if error.code not in (None, 0):
            raise
    except TimeLimitError:
        limited = True
    finally:
        emit_calls()
        emit(ScriptEnded(seconds=time.perf_counter() - start, time_limit=limit if limited else None))


@contextmanager
def time_limit(limit: float) -> Iterator[None]:
    """Raise `TimeLimitError` in the main thread after `limit` seconds, and again until it ends the user's code."""
    if not limit:
        yield
        return

    def ring(*_: object) -> None:
        raise TimeLimitError

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit, REPEAT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
