"""A script over time: each compiled region with its calls, and when it compiled, and compiled again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tcexplore import events as ev
from tcexplore.events.compile_ids import backward_number
from tcexplore.session.snapshot import Snapshot

COMPILE, RECOMPILE, BACKWARD, BACKWARD_AGAIN = "compile", "recompile", "backward", "backward again"

FIRST = ("", "0")
"""Numbers of captures that nothing could have spared: none, and the first."""

_BACKWARD_SPAN = "entire_backward_compile"
"""torch's span of a backward graph that is compiled when it is first run, apart from the call of its region."""


@dataclass(frozen=True, slots=True)
class CompileMark:
    """Something was compiled from `at` on for `seconds`. `what` is one of the names above; `call` is the region's call,
    from 1, None for a backward; `why` are the guards that failed, the newest entry's first. `captured` is torch's
    reason for capturing a backward of compiled autograd anew, None for anything else, empty where it gave none."""

    kind: str
    at: float
    seconds: float
    graphs: tuple[str, ...]
    call: int | None = None
    causes: tuple[ev.Recompiled, ...] = ()
    capture_reason: str | None = None

    @property
    def repeated(self) -> bool:
        """Whether it had been compiled before."""
        return self.kind in (RECOMPILE, BACKWARD_AGAIN)


@dataclass(frozen=True, slots=True)
class RegionTimeline:
    """One region: its marks in the order of time, and its calls so far, None before the first."""

    region: ev.RegionCreated
    calls: ev.RegionCalls | None
    marks: tuple[CompileMark, ...]

    def compile_seconds(self, *, again: bool) -> float:
        """Seconds of the calls and backwards that compiled for the first time, or again."""
        return sum(mark.seconds for mark in self.marks if mark.repeated == again)


@dataclass(frozen=True, slots=True)
class Timeline:
    """All regions that were called, then those that were not; `seconds` since the job arrived until the last event."""

    regions: tuple[RegionTimeline, ...]
    seconds: float

    @property
    def calls(self) -> int:
        return sum(lane.calls.calls for lane in self.regions if lane.calls)


def timeline(snapshot: Snapshot) -> Timeline:
    """The regions of a run over its time; empty for a file that is no script."""
    seen = {found.region: found for found in snapshot.region_calls}
    marks = _marks(snapshot)
    lanes = [
        RegionTimeline(made, seen.get(made.region), tuple(marks.get(made.region, ()))) for made in snapshot.regions
    ]
    lanes.sort(key=lambda lane: lane.calls is None)
    return Timeline(tuple(lanes), max([0.0, *(end for lane in lanes for end in _ends(lane))]))


def _ends(lane: RegionTimeline) -> Iterator[float]:
    yield from (mark.at + mark.seconds for mark in lane.marks)
    if lane.calls is not None:
        yield len(lane.calls.activity) * lane.calls.bin_s


def _marks(snapshot: Snapshot) -> dict[int, list[CompileMark]]:
    """The marks of each region, in the order of time."""
    why: dict[str, list[ev.Recompiled]] = {}
    for again in snapshot.recompiles:
        why.setdefault(again.graph, []).append(again)
    reasons = {found.backward: found.reason for found in snapshot.backward_captures}
    found: dict[int, list[CompileMark]] = {}
    for made in snapshot.region_compiles:
        failed = tuple(why[graph][0] for graph in made.graphs if graph in why)
        what = RECOMPILE if failed else COMPILE
        number = backward_number(made.graphs[0]) if made.graphs else ""
        captured = reasons.get(number, "") if number not in FIRST else None
        mark = CompileMark(what, made.at, made.seconds, made.graphs, made.call, failed, captured)
        found.setdefault(made.region, []).append(mark)
    regions = {known.graph: known.region for known in snapshot.region_graphs}
    for span in snapshot.phase_times:
        if span.name == _BACKWARD_SPAN and span.graph in regions and span.at is not None:
            failed = tuple(why.get(span.graph or "", ()))[:1]
            what = BACKWARD_AGAIN if failed else BACKWARD
            mark = CompileMark(what, span.at, span.seconds, (span.graph or "",), causes=failed)
            found.setdefault(regions[span.graph], []).append(mark)
    return {region: sorted(marks, key=lambda mark: mark.at) for region, marks in found.items()}
