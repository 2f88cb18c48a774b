"""The cache entries of each frame and how they came about: which call, which guard of which earlier entry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tcexplore import events as ev
from tcexplore.events.compile_ids import frame_number
from tcexplore.session.snapshot import Snapshot

BACKWARD = "entire_backward_compile"
"""torch's span of a backward that is compiled when it is first run, apart from its forward."""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One cache entry. `causes` are the guards that failed, of the newest earlier entry first, and empty for the first
    entry of a frame.

    `call` counts from 1: of the file's calls, or in a script of the calls of its region, whose line is `caller`.
    `seconds` of compiling, the backward's own in `backward`, both None where torch gave no span.
    """

    graph: str
    causes: tuple[ev.Recompiled, ...] = ()
    call: int | None = None
    caller: ev.Location | None = None
    seconds: float | None = None
    backward_seconds: float | None = None

    @property
    def failed_entry(self) -> str:
        """The entry that torch tried first, empty where there was none."""
        return self.causes[0].failed_entry if self.causes else ""


@dataclass(frozen=True, slots=True)
class FrameEntries:
    """One frame and its `entries`, oldest first; `refused` is what was not compiled any more, because of the limit.

    `raises` says that reaching `limit` is an error for this frame; else it runs eagerly from there on.
    """

    number: str
    location: ev.Location | None
    resumed: bool
    entries: tuple[CacheEntry, ...]
    over_limit: tuple[CacheEntry, ...]
    limit: int | None
    accumulated_limit: int | None
    limit_hit: str
    error_at_limit: bool

    @property
    def free_entries(self) -> int | None:
        """How many more entries fit; None where torch does not tell its limit."""
        return None if self.limit is None else max(self.limit - len(self.entries), 0)


def cache_entries(snapshot: Snapshot) -> tuple[FrameEntries, ...]:
    """Every frame that was compiled, in the order of their first compile."""
    frames: dict[str, list[ev.FrameEntered]] = defaultdict(list)
    for entered in snapshot.frames:
        if entered.graph:
            frames[frame_number(entered.graph)].append(entered)
    known = _Known(snapshot)
    return tuple(_frame(number, found, known) for number, found in frames.items() if known.any_compiled(found))


class _Known:
    """What other events say of each compile id."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.causes: dict[str, list[ev.Recompiled]] = defaultdict(list)
        for found in snapshot.recompiles:
            self.causes[found.graph].append(found)
        self.calls = {g: call.call for call in snapshot.region_compiles for g in call.graphs}
        self.calls |= {g: call.index + 1 for call in snapshot.calls if call.variant == "compiled" for g in call.graphs}
        self.compiled = {installed.graph for installed in snapshot.guards} | {g.graph for g in snapshot.graphs}
        self.seconds: dict[str, float] = defaultdict(float)
        self.backward: dict[str, float] = defaultdict(float)
        for span in snapshot.phase_times:
            if span.graph and span.depth == 0:
                (self.backward if span.name == BACKWARD else self.seconds)[span.graph] += span.seconds

    def any_compiled(self, found: list[ev.FrameEntered]) -> bool:
        return any(entered.graph in self.compiled or entered.limit_hit for entered in found)

    def entry(self, entered: ev.FrameEntered) -> CacheEntry:
        graph = entered.graph
        return CacheEntry(
            graph=graph,
            causes=tuple(self.causes.get(graph, ())),
            call=self.calls.get(graph, entered.call),
            caller=entered.caller,
            seconds=self.seconds.get(graph),
            backward_seconds=self.backward.get(graph),
        )


def _frame(number: str, found: list[ev.FrameEntered], known: _Known) -> FrameEntries:
    last = found[-1]
    return FrameEntries(
        number=number,
        location=last.frame,
        resumed=last.resumed,
        entries=tuple(known.entry(entered) for entered in found if entered.graph in known.compiled),
        over_limit=tuple(known.entry(entered) for entered in found if entered.limit_hit),
        limit=last.limit,
        accumulated_limit=last.accumulated_limit,
        limit_hit=last.limit_hit,
        error_at_limit=last.error_at_limit,
    )


def newest_causes(snapshot: Snapshot) -> Iterator[tuple[ev.Recompiled, int]]:
    """Each recompile with the newest entry that did not match, and how many older ones did not match either."""
    by_graph: dict[str, list[ev.Recompiled]] = {}
    for found in snapshot.recompiles:
        by_graph.setdefault(found.graph, []).append(found)
    return ((entries[0], len(entries) - 1) for entries in by_graph.values())
