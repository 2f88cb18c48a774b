"""Python's garbage collector, kept from looking through a large run while the user presses keys."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0


@contextmanager
def uncollected() -> Iterator[None]:
    """No collection meanwhile, and none of what was made by then later on: that is kept with its run, and let go with
    it. Looking through all of a large run takes a fifth of a second, in which no thread goes on."""
    global _pauses
    with _lock:
        _pauses += 1
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses:
                gc.freeze()
                gc.enable()
