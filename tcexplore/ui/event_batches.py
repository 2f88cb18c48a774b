"""Collect events on their way to the app, so that many events cost few screen updates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from tcexplore.events import Event, Failed, Finished, GraphBreak, GraphCaptured, Job, Kernel, Output, Standby
from tcexplore.ui.messages import RunEvents

URGENT = (Job, Standby, GraphCaptured, GraphBreak, Kernel, Failed, Finished)
"""Events that the user waits for after a save."""

URGENT_TICK = 0.008
"""Minimum seconds between two batches."""

TICK = 0.04
"""Seconds that other items wait for more of them."""

_MERGED = 65_536
"""Maximum characters of output that are merged into one event."""


class EventBatcher:
    """Collects items into one `RunEvents`. Urgent items go out at once, and take with them what waits."""

    def __init__(self, post: Callable[[RunEvents], object]) -> None:
        self._post = post
        self._items: list[Job | Event] = []
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, item: Job | Event) -> None:
        """Add a new job or an event to the batch. Must be called in the event loop."""
        previous = self._items[-1] if self._items else None
        if isinstance(item, Output) and isinstance(previous, Output) and _continues(previous, item):
            self._items[-1] = replace(previous, text=previous.text + item.text)
        else:
            self._items.append(item)
        loop = asyncio.get_running_loop()
        due = max(loop.time(), self._last + URGENT_TICK) if isinstance(item, URGENT) else loop.time() + TICK
        if self._timer is None or due < self._timer.when():
            self._cancel()
            self._timer = loop.call_at(due, self._flush)

    def _flush(self) -> None:
        self._timer, self._last = None, asyncio.get_running_loop().time()
        items, self._items = tuple(self._items), []
        self._post(RunEvents(items))

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _continues(previous: Output, item: Output) -> bool:
    return (previous.stream, previous.run) == (item.stream, item.run) and len(previous.text) < _MERGED
