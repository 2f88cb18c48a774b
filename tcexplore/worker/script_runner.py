"""Run a user's script to its end, or for a limited time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tcexplore.capture.entry.entry import EntryError
from tcexplore.capture.hooks import Emit
from tcexplore.events import Job, ScriptEnded
from tcexplore.events.job import IN_CACHES
from tcexplore.worker.time_limit import TimeLimitError, time_limit

REFUSED = "A script chooses itself what it compiles."
REFUSED_HINT = "To compile it in another way, put a model and its inputs in a file as `model` and `inputs`."


def refuse_for_script(job: Job) -> None:
    """Raise `EntryError` if the job compiles in a way that needs a model and its inputs."""
    if job.config.regions != "whole" or job.artifacts not in IN_CACHES:
        raise EntryError(REFUSED, REFUSED_HINT, "arguments")


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
