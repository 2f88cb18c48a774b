"""News from the supervisor on its way to the app: collected, so that a flood costs a few updates and not one each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from tcexplore.events import Event, Job, Output

TICK = 0.03
"""Seconds between two deliveries, at least."""

_MERGED = 65_536
"""Characters up to which pieces of output are joined."""


class Inbox:
    """Takes news one by one and hands on what came within a tick as one batch; the first after a lull at once."""

    def __init__(self, deliver: Callable[[tuple[Job | Event, ...]], None]) -> None:
        self._deliver = deliver
        self._news: list[Job | Event] = []
        self._last = 0.0
        self._due: asyncio.TimerHandle | None = None

    def put(self, news: Job | Event) -> None:
        """Add to the batch. Call it in the event loop."""
        previous = self._news[-1] if self._news else None
        if isinstance(news, Output) and isinstance(previous, Output) and _continues(previous, news):
            self._news[-1] = replace(previous, text=previous.text + news.text)
        else:
            self._news.append(news)
        if self._due is None:
            wait = max(0.0, self._last + TICK - monotonic())
            self._due = asyncio.get_running_loop().call_later(wait, self._hand_on)

    def _hand_on(self) -> None:
        self._due, self._last = None, monotonic()
        news, self._news = tuple(self._news), []
        self._deliver(news)


def _continues(previous: Output, news: Output) -> bool:
    return (previous.stream, previous.run) == (news.stream, news.run) and len(previous.text) < _MERGED
