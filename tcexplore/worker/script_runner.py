"""Running a user's script to its end, or for as long as it is to be followed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tcexplore.capture.hooks import Emit
from tcexplore.events import ScriptEnded

AGAIN_S = 0.5
"""Seconds after which a script that goes on is told once more to end."""


class _FollowedLongEnough(BaseException):
    """Ends the script; no `except Exception` of the user's holds it up."""


def follow(script: Callable[[], Any], limit: float, tell: Callable[[], None], emit: Emit) -> None:
    """Run `script`, for `limit` seconds at the most where that is not 0; then `tell()` what is still to be told.

    Raises what the script raises, but for an exit with status 0. Emits `ScriptEnded` in every case.
    """
    started, ended = time.perf_counter(), False
    try:
        with _alarm(limit):
            script()
    except SystemExit as exit_:
        if exit_.code not in (None, 0):
            raise
    except _FollowedLongEnough:
        ended = True
    finally:
        tell()
        emit(ScriptEnded(seconds=time.perf_counter() - started, time_limit=limit if ended else None))


@contextmanager
def _alarm(limit: float) -> Iterator[None]:
    """Raise in the main thread after `limit` seconds, and again until that got through."""
    if not limit:
        yield
        return

    def ring(*_: object) -> None:
        raise _FollowedLongEnough

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
