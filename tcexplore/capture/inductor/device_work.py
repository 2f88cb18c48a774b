"""The device's work in a profile: each piece with the launch, the op and the graph that it came from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tcexplore.capture.inductor.profiler_tree import CALL, GRAPH, Seen

REPLAYS = ("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch")


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A kernel, a copy or a fill that the device did between `start` and `end`, in microseconds.

    `launch` is the host's call that started it, `call` the timed call, `graph` the compile id and phase of the graph
    (`0/0 forward`), empty outside of every graph; None and empty where the profiler does not tell. `replayed` is true
    for what a CUDA graph holds.
    """

    name: str
    start: float
    end: float
    launch: Seen | None
    call: Seen | None
    graph: str
    replayed: bool

    @property
    def us(self) -> float:
        return self.end - self.start


def works(found: Sequence[Seen]) -> list[Work]:
    """The device's work inside the timed calls, in its order."""
    launches = {event.id: event for event in found if event.launches}
    calls = [event for event in found if event.host and event.name == CALL]
    made = (_work(event, launches.get(event.id), calls) for event in found if not event.host)
    return sorted((work for work in made if work.call is not None), key=lambda work: work.start)


def _work(event: Seen, launch: Seen | None, calls: Sequence[Seen]) -> Work:
    around = list(launch.around()) if launch is not None else []
    graph = next((one.name.removeprefix(GRAPH) for one in around if one.name.startswith(GRAPH)), "")
    call = next((one for one in around if one.name == CALL), None)
    if launch is None:
        call = next((one for one in calls if one.start <= event.start <= one.end), None)
    replayed = launch is not None and launch.name.startswith(REPLAYS)
    return Work(event.name, event.start, event.end, launch, call, graph, replayed)


def busy(work: Iterable[Work]) -> float:
    """Microseconds in which at least one piece was worked on."""
    total, until = 0.0, float("-inf")
    for piece in sorted(work, key=lambda piece: piece.start):
        total += max(0.0, piece.end - max(piece.start, until))
        until = max(until, piece.end)
    return total


def gaps(work: Sequence[Work]) -> float:
    """Microseconds between the first and the last piece in which none was worked on."""
    if not work:
        return 0.0
    return max(piece.end for piece in work) - min(piece.start for piece in work) - busy(work)
