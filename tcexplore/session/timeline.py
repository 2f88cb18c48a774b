"""Timeline of a script: each compiled region with its calls, compiles and recompiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from tcexplore import events as ev
from tcexplore.events.base import backward_number
from tcexplore.session.snapshot import Snapshot

COMPILE: Final = "compile"
RECOMPILE: Final = "recompile"
BACKWARD: Final = "backward"
BACKWARD_AGAIN: Final = "backward again"
MarkKind = Literal["compile", "recompile", "backward", "backward again"]

_FIRST_CAPTURES = ("", "0")
"""Capture numbers of unavoidable compiles: none, and the first."""

_BACKWARD_SPAN = "entire_backward_compile"
"""torch's span of a backward that is compiled when it first runs, after the call of its region."""


@dataclass(frozen=True, slots=True)
class CompileMark:
    """A compile on the timeline."""

    kind: MarkKind
    at: float
    """Start in seconds since the job arrived."""
    seconds: float
    graphs: tuple[str, ...]
    """Compile ids."""
    call: int | None = None
    """Call of the region, from 1; None for a backward."""
    causes: tuple[ev.Recompiled, ...] = ()
    """Guards that failed, of the newest entry first."""
    capture_reason: str | None = None
    """Why compiled autograd captured a backward again, empty if torch gives no reason; None for anything else."""

    @property
    def repeated(self) -> bool:
        """Whether it was compiled before."""
        return self.kind in (RECOMPILE, BACKWARD_AGAIN)


@dataclass(frozen=True, slots=True)
class RegionTimeline:
    """One region on the timeline."""

    region: ev.RegionCreated
    calls: ev.RegionCalls | None
    """None before the first call."""
    marks: tuple[CompileMark, ...]
    """In chronological order."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Regions of a script over time."""

    regions: tuple[RegionTimeline, ...]
    """In the order of their first calls."""
    seconds: float
    """From the arrival of the job to the last event."""

    @property
    def calls(self) -> int:
        return sum(region.calls.calls for region in self.regions if region.calls)


def timeline(snapshot: Snapshot) -> Timeline:
    """Return the timeline of a run; empty if the entry is not a script."""
    calls = {known.region: known for known in snapshot.region_calls}
    marks = _marks(snapshot)
    regions = [RegionTimeline(r, calls.get(r.region), tuple(marks.get(r.region, ()))) for r in snapshot.regions]
    regions.sort(key=lambda region: region.calls is None)
    return Timeline(tuple(regions), max([0.0, *(end for region in regions for end in _ends(region))]))


def _ends(region: RegionTimeline) -> Iterator[float]:
    yield from (mark.at + mark.seconds for mark in region.marks)
    if region.calls is not None:
        yield len(region.calls.activity) * region.calls.bin_s


def _marks(snapshot: Snapshot) -> dict[int, list[CompileMark]]:
    """Return the marks of each region in chronological order."""
    causes: dict[str, list[ev.Recompiled]] = {}
    for recompile in snapshot.recompiles:
        causes.setdefault(recompile.graph, []).append(recompile)
    reasons = {capture.backward: capture.reason for capture in snapshot.backward_captures}
    marks: dict[int, list[CompileMark]] = {}
    for call in snapshot.region_compiles:
        failed = tuple(causes[graph][0] for graph in call.graphs if graph in causes)
        number = backward_number(call.graphs[0]) if call.graphs else ""
        reason = reasons.get(number, "") if number not in _FIRST_CAPTURES else None
        kind: MarkKind = RECOMPILE if failed else COMPILE
        mark = CompileMark(kind, call.at, call.seconds, call.graphs, call.call, failed, reason)
        marks.setdefault(call.region, []).append(mark)
    regions = {known.graph: known.region for known in snapshot.region_graphs}
    for span in snapshot.phase_times:
        if span.name == _BACKWARD_SPAN and span.graph in regions and span.at is not None:
            failed = tuple(causes.get(span.graph or "", ()))[:1]
            kind = BACKWARD_AGAIN if failed else BACKWARD
            mark = CompileMark(kind, span.at, span.seconds, (span.graph or "",), causes=failed)
            marks.setdefault(regions[span.graph], []).append(mark)
    return {region: sorted(own, key=lambda mark: mark.at) for region, own in marks.items()}
