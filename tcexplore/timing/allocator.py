"""The state of glibc's allocator, on which the page faults of a call depend, and their count.

By default glibc returns freed memory to the system: large blocks at once, and the top of the heap when it grows. The
next call takes page faults to get it again, and how many depends on the history of the heap, so that processes differ.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from contextlib import suppress

from tcexplore.events.timing_events import MemoryState

_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_NEVER = -1
"""As a threshold, the largest number."""


def keep_memory() -> MemoryState:
    """Have glibc keep freed memory for later calls; return the state of this process.

    Without glibc, nothing changes.
    """
    if sys.platform != "linux":
        return "as the system does"
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  another C library lacks it, and may understand mallopt differently
        if library.mallopt(_M_MMAP_MAX, 0) and library.mallopt(_M_TRIM_THRESHOLD, _NEVER):
            return "memory kept"
    return "as the system does"


def page_fault_counter() -> Callable[[], int] | None:
    """Return a function that returns the minor page faults so far; None on systems that do not count them."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:
        return None
    return lambda: getrusage(RUSAGE_SELF).ru_minflt
