"""Collect events on their way to the app, so that many events cost few screen updates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from tcexplore.events import Event, Job, Output
from tcexplore.ui.messages import RunEvents

TICK = 0.03
"""Minimum seconds between two batches."""

_MERGED = 65_536
"""Maximum characters of output that are merged into one event."""


class EventBatcher:
    """Collects items that arrive within a tick into one `RunEvents`; after a pause, the first item goes out at once."""

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
        if self._timer is None:
            wait = max(0.0, self._last + TICK - monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait, self._flush)

    def _flush(self) -> None:
        self._timer, self._last = None, monotonic()
        items, self._items = tuple(self._items), []
        self._post(RunEvents(items))


def _continues(previous: Output, item: Output) -> bool:
    return (previous.stream, previous.run) == (item.stream, item.run) and len(previous.text) < _MERGED
