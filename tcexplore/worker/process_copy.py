"""A function that runs in a copy of this process, which nothing it does can change."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tcexplore.worker.fork_policy import ChildProbe
from tcexplore.worker.process_setup import die_with_parent


def call_in_copy(function: Callable[[], Any], limit_s: float) -> Any:
    """Return the result, which must be JSON, of a function in a forked process. Raises `OSError`, `RuntimeError`."""
    parent = os.getpid()

    def run() -> Any:
        die_with_parent(parent)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        return function()

    return ChildProbe(run).result(limit_s)
