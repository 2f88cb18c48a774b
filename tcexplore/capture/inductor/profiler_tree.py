"""What torch's profiler saw, as a plain tree: the host's events under each other, the device's work beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

CALL = "tcexplore: call"
GRAPH = "tcexplore: graph "
KERNEL = "tcexplore: kernel "
OURS = "tcexplore: "

_LAUNCHES = ("cuda", "cu", "hip")
"""What begins with this is a call of the device's own interface."""


@dataclass(slots=True, eq=False)
class Seen:
    """One event: its name, its `start` and `end` in microseconds, and whether the `host` or the device worked.

    `id` is one and the same for a piece of the device's work and the call of its interface that launched it.
    """

    name: str
    host: bool
    id: int
    start: float
    end: float
    parent: Seen | None = None
    children: list[Seen] = field(default_factory=list)

    @property
    def us(self) -> float:
        return self.end - self.start

    @property
    def launches(self) -> bool:
        """Whether this is a call of the device's interface; others may carry the same `id`."""
        return self.host and self.name.startswith(_LAUNCHES)

    def around(self) -> Iterator[Seen]:
        """This event, then each one that it lies in, the innermost first."""
        here: Seen | None = self
        while here is not None:
            yield here
            here = here.parent


def seen(events: Iterable[Any]) -> list[Seen]:
    """The profiler's `events()`, the user's own marks of the device's time line left out: no work stands for them."""
    kept = [event for event in events if _on_host(event) or not _is_mark(event)]
    made = {id(event): _one(event) for event in kept}
    for event in kept:
        parent = made.get(id(event.cpu_parent)) if event.cpu_parent is not None else None
        if parent is not None:
            _under(parent, made[id(event)])
    found = list(made.values())
    _adopt(found)
    return found


def faster_half(found: list[Seen]) -> list[Seen]:
    """What belongs to the faster half of the calls; with an odd number of calls the middle one counts to it."""
    calls = sorted((event for event in found if event.host and event.name == CALL), key=lambda event: event.us)
    slower = set(calls[(len(calls) + 1) // 2 :])
    return [event for event in found if not slower.intersection(event.around())]


def _one(event: Any) -> Seen:
    times = event.time_range
    return Seen(name=event.name, host=_on_host(event), id=event.id, start=times.start, end=times.end)


def _under(parent: Seen, child: Seen) -> None:
    child.parent = parent
    parent.children.append(child)


def _adopt(found: list[Seen]) -> None:
    """What another thread did during a call, as autograd's does for a device, belongs to the call that waits for it."""
    calls = [event for event in found if event.name == CALL]
    for event in found:
        if event.host and event.parent is None and event.name != CALL:
            waiting = next((call for call in calls if call.start <= event.start and event.end <= call.end), None)
            if waiting is not None:
                _under(waiting, event)


def _on_host(event: Any) -> bool:
    return str(event.device_type).endswith("CPU")


def _is_mark(event: Any) -> bool:
    return bool(getattr(event, "is_user_annotation", False)) or event.name.startswith(OURS)
