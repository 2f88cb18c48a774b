"""A profile as a tree: nested host events, and device tasks with the launch, call and graph of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

CALL = "tcexplore: call"
GRAPH = "tcexplore: graph "


def graph_of_mark(name: str) -> tuple[str, int]:
    """Return `0/0 forward` and the number of the module for the mark of a graph, which DDP may compile in parts."""
    graph, _, number = name.removeprefix(GRAPH).partition(" #")
    return graph, int(number or 0)


KERNEL = "tcexplore: kernel "
OP = "tcexplore: op "
CALIBRATION = "tcexplore: calibration "
_MARK = "tcexplore: "
"""Names of tcexplore's marks in a profile."""

_DEVICE_API = ("cuda", "cu", "hip")
"""Prefixes of host events that are device API calls."""

_GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch")


@dataclass(slots=True, eq=False)
class ProfilerEvent:
    """One event of a profile; times are in microseconds."""

    name: str
    host: bool
    """Whether this is work of the host rather than the device."""
    id: int
    """Shared by a device task and the API call that launched it."""
    start: float
    end: float
    parent: ProfilerEvent | None = None
    children: list[ProfilerEvent] = field(default_factory=list)

    @property
    def us(self) -> float:
        return self.end - self.start

    @property
    def is_launch(self) -> bool:
        """Whether this is a call of the device's API; other host events may share its `id`."""
        return self.host and self.name.startswith(_DEVICE_API)

    def with_ancestors(self) -> Iterator[ProfilerEvent]:
        """Yield this event, then its ancestors, innermost first."""
        event: ProfilerEvent | None = self
        while event is not None:
            yield event
            event = event.parent


def profiler_tree(events: Iterable[Any]) -> list[ProfilerEvent]:
    """Convert the profiler's `events()`, without marks on the device's timeline, which are not work."""
    used = [event for event in events if _on_host(event) or not _is_mark(event)]
    converted = {id(event): _converted(event) for event in used}
    for event in used:
        parent = converted.get(id(event.cpu_parent)) if event.cpu_parent is not None else None
        if parent is not None:
            _add_child(parent, converted[id(event)])
    tree = list(converted.values())
    _add_other_threads(tree)
    return tree


_LEFT_OUT = frozenset((
    "aten::is_leaf", "aten::output_nr", "aten::_version", "profiler::_record_function_enter",
    "profiler::_record_function_enter_new", "profiler::_record_function_exit",
))  # fmt: skip
"""Events that torch's `events()` leaves out."""


def host_tree(events: Iterable[Any], began_ns: int) -> list[ProfilerEvent]:
    """Convert Kineto's events of a profile without a device, which began at `began_ns`.

    torch's `events()` makes objects of 40 fields of them first: 0.35 s for the 6,800 events of a model of 32 layers,
    this takes 0.04 s. Raises `AttributeError` or `TypeError` if this torch has other events.
    """
    rows = [
        (event.start_thread_id(), event.start_ns() - began_ns, began_ns - event.end_ns(), event)
        for event in events
        if event.name() not in _LEFT_OUT and not event.is_hidden_event()
    ]
    tree: list[ProfilerEvent] = []
    within: list[ProfilerEvent] = []
    last_thread: object = None
    for thread, start_ns, minus_end_ns, row in sorted(rows, key=lambda row: row[:3]):
        event = ProfilerEvent(row.name(), True, row.correlation_id(), start_ns / 1000, -minus_end_ns / 1000)
        tree.append(event)
        if row.is_async() or row.end_thread_id() != thread:
            continue  # it contains nothing, and belongs to the call
        if thread != last_thread:
            within.clear()
            last_thread = thread
        while within and (event.start >= within[-1].end or event.end > within[-1].end):
            within.pop()
        if within:
            _add_child(within[-1], event)
        within.append(event)
    tree = [event for event in tree if not _merged(event)]
    tree.sort(key=lambda event: (event.start, -event.end))
    _add_other_threads(tree)
    return tree


def _merged(event: ProfilerEvent) -> bool:
    """Give the children of the only event within one of its name to that one; return whether it is such an event."""
    parent = event.parent
    if parent is None or parent.name != event.name or len(parent.children) > 1:
        return False
    parent.children = event.children
    for child in event.children:
        child.parent = parent
    return True


FEWEST = 3
"""Calls of which the median of a part does not depend on the one in which something stopped it."""


def faster_half(calls: Sequence[ProfilerEvent]) -> list[ProfilerEvent]:
    """Return the faster half of the calls, including the middle one of an odd number."""
    return sorted(calls, key=lambda call: call.us)[: (len(calls) + 1) // 2]


def calls_near(times: Mapping[ProfilerEvent, float], target: float) -> list[ProfilerEvent]:
    """Return the half of the calls whose times are the closest to `target`, including the middle one of an odd number.

    At least `FEWEST` of them, if there are so many.
    A target outside the middle half of the times is moved there: a call that something interrupted does not count.
    """
    in_order = sorted(times.values())
    quarter = len(in_order) // 4
    target = min(max(target, in_order[quarter]), in_order[-1 - quarter])
    return sorted(times, key=lambda call: abs(times[call] - target))[: max(FEWEST, (len(times) + 1) // 2)]


def _converted(event: Any) -> ProfilerEvent:
    times = event.time_range
    return ProfilerEvent(name=event.name, host=_on_host(event), id=event.id, start=times.start, end=times.end)


def _add_child(parent: ProfilerEvent, child: ProfilerEvent) -> None:
    child.parent = parent
    parent.children.append(child)


def _add_other_threads(events: list[ProfilerEvent]) -> None:
    """Move events of other threads, such as autograd's device thread, below the call that waits for them."""
    calls = [event for event in events if event.name == CALL]
    for event in events:
        if event.host and event.parent is None and event.name != CALL:
            waiting = next((call for call in calls if call.start <= event.start and event.end <= call.end), None)
            if waiting is not None:
                _add_child(waiting, event)


def _on_host(event: Any) -> bool:
    return _is_host(event.device_type)


@cache
def _is_host(device_type: Any) -> bool:
    return str(device_type).endswith("CPU")  # to name one takes 2 µs, and a profile has thousands of events


def _is_mark(event: Any) -> bool:
    return bool(getattr(event, "is_user_annotation", False)) or event.name.startswith(_MARK)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceWork:
    """A kernel, copy or fill of the device; times are in microseconds."""

    name: str
    start: float
    end: float
    launch: ProfilerEvent | None
    """The API call that started it, None if the profiler does not record it."""
    call: ProfilerEvent | None
    """The timed call that it belongs to, None if it is outside all calls."""
    graph: str
    """Compile id and phase of the graph that launched it (`0/0 forward`), empty outside graphs."""
    replayed: bool
    """Whether a CUDA graph launched it."""

    @property
    def us(self) -> float:
        return self.end - self.start


def device_work(events: Sequence[ProfilerEvent]) -> list[DeviceWork]:
    """Return the device's work inside the timed calls, in order of time."""
    launches = {event.id: event for event in events if event.is_launch}
    calls = [event for event in events if event.host and event.name == CALL]
    work = (_work(event, launches.get(event.id), calls) for event in events if not event.host)
    return sorted((piece for piece in work if piece.call is not None), key=lambda piece: piece.start)


def _work(event: ProfilerEvent, launch: ProfilerEvent | None, calls: Sequence[ProfilerEvent]) -> DeviceWork:
    ancestors = list(launch.with_ancestors()) if launch is not None else []
    graph = next((graph_of_mark(event.name)[0] for event in ancestors if event.name.startswith(GRAPH)), "")
    call = next((event for event in ancestors if event.name == CALL), None)
    if launch is None:
        call = next((timed for timed in calls if timed.start <= event.start <= timed.end), None)
    replayed = launch is not None and launch.name.startswith(_GRAPH_LAUNCHES)
    return DeviceWork(event.name, event.start, event.end, launch, call, graph, replayed)


def busy_us(work: Iterable[DeviceWork]) -> float:
    """Return the time during which at least one device task ran."""
    total, until = 0.0, float("-inf")
    for piece in sorted(work, key=lambda piece: piece.start):
        total += max(0.0, piece.end - max(piece.start, until))
        until = max(until, piece.end)
    return total


def gaps_us(work: Sequence[DeviceWork]) -> float:
    """Return the idle time of the device between the first and the last task."""
    if not work:
        return 0.0
    return max(piece.end for piece in work) - min(piece.start for piece in work) - busy_us(work)
