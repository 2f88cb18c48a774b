"""The command line. Importing it is cheap: commands are imported when they run."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Sequence
from types import FrameType

INTERRUPTED = 130
"""Exit status after Ctrl-C."""

_GC_THRESHOLDS = (20_000, 50, 1_000)
"""Thresholds that make automatic collections rare: what a command reads stays until it ends."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status. Ctrl-C during its imports ends the process without a traceback."""
    previous = signal.signal(signal.SIGINT, _exit)
    gc.disable()  # imports leave no garbage
    from tcexplore.cli.dispatch import dispatch

    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()
    try:
        # `tcexplore.__main__` set SIG_DFL; without it, SIGINT may be ignored, as in a background job.
        signal.signal(signal.SIGINT, signal.default_int_handler if previous is signal.SIG_DFL else previous)
        return dispatch(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except RuntimeError as error:  # Ctrl-C while Python 3.11 makes a class, as in the imports of the app
        if isinstance(error.__cause__, KeyboardInterrupt):
            return INTERRUPTED
        raise


def _exit(_number: int, _frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
