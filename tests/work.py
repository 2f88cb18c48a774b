"""The work of a call as a number that neither the machine nor other load changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def calls_in(call: Callable[[], object]) -> int:
    """Return the number of Python and C functions that a call runs."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    return count
