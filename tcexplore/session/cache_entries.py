"""Cache entries of each frame: the call that compiled them, the guards that failed, and how their guards differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.events.base import backward_number, frame_number
from tcexplore.session.snapshot import Snapshot

BACKWARD = "entire_backward_compile"
"""torch's span of a backward that is compiled when it first runs, separately from its forward."""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A cache entry of a frame."""

    graph: str
    """Compile id."""
    causes: tuple[ev.Recompiled, ...] = ()
    """Guards that failed, of the newest earlier entry first; empty for the first entry."""
    call: int | None = None
    """Call of the model file that compiled it, from 1; in a script, call of its region."""
    caller: ev.Location | None = None
    """Line of that call in a script."""
    seconds: float | None = None
    """Compile time without the backward; None if torch logged no span."""
    backward_seconds: float | None = None

    @property
    def failed_entry(self) -> str:
        """The entry that torch tried first, empty for the first entry of the frame."""
        return self.causes[0].failed_entry if self.causes else ""


@dataclass(frozen=True, slots=True)
class FrameEntries:
    """A frame and its cache entries."""

    number: str
    location: ev.Location | None
    resumed: bool
    entries: tuple[CacheEntry, ...]
    """Oldest first."""
    over_limit: tuple[CacheEntry, ...]
    """Not compiled because of the limit."""
    free_entries: int | None
    """Number of entries until a limit; None if the limit is unknown."""
    isolated: bool
    """Whether this is the separate cache of an `isolate_recompiles=True`."""
    limit: int | None
    accumulated_limit: int | None
    limit_hit: str
    error_at_limit: bool
    """Reaching the limit is an error; otherwise the frame runs eagerly from then on."""


def cache_entries(snapshot: Snapshot) -> tuple[FrameEntries, ...]:
    """Return every frame that was compiled, in the order of the first compiles."""
    frames: dict[tuple[str, int], list[ev.FrameEntered]] = defaultdict(list)
    for entered in snapshot.frames:
        if entered.graph:
            frames[frame_number(entered.graph), entered.isolation].append(entered)
    facts = _EntryFacts(snapshot)
    return tuple(
        _frame(number, entered, facts) for (number, _), entered in frames.items() if facts.any_compiled(entered)
    )


class GraphlessCompile(NamedTuple):
    """A compile id with guards or compile times, but without a graph."""

    graph: str
    location: ev.Location | None
    reason: str


NO_OPS = "the frame has no ops to compile; its cache entry has guards and changed bytecode only"
DISCARDED = "torch discarded what it traced, and runs the frame eagerly"


def graphless_compiles(snapshot: Snapshot) -> tuple[GraphlessCompile, ...]:
    """Return the compile ids that other facts name although torch made no graph with them, each with the reason."""
    guarded = {installed.graph for installed in snapshot.guards}
    timed = {span.graph: None for span in snapshot.phase_times if span.graph}
    known = {graph.graph for graph in snapshot.graphs}
    frames = {entered.graph: entered.frame for entered in snapshot.frames}
    skipped = {frame.graph: frame for frame in snapshot.skipped_frames if frame.graph}
    graphless = []
    for graph in dict.fromkeys((*(installed.graph for installed in snapshot.guards), *timed)):
        if graph in known or backward_number(graph):
            continue
        reason = skipped[graph].reason if graph in skipped else NO_OPS if graph in guarded else DISCARDED
        location = skipped[graph].frame if graph in skipped else frames.get(graph)
        graphless.append(GraphlessCompile(graph, location, reason))
    return tuple(graphless)


class _EntryFacts:
    """Facts about each compile id from other events."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.causes: dict[str, list[ev.Recompiled]] = defaultdict(list)
        for recompile in snapshot.recompiles:
            self.causes[recompile.graph].append(recompile)
        self.calls = {g: call.call for call in snapshot.region_compiles for g in call.graphs}
        self.calls |= {g: call.index + 1 for call in snapshot.calls if call.variant == "compiled" for g in call.graphs}
        self.compiled = {installed.graph for installed in snapshot.guards} | {g.graph for g in snapshot.graphs}
        self.seconds: dict[str, float] = defaultdict(float)
        self.backward: dict[str, float] = defaultdict(float)
        for span in snapshot.phase_times:
            if span.graph and span.depth == 0:
                (self.backward if span.name == BACKWARD else self.seconds)[span.graph] += span.seconds

    def any_compiled(self, frames: list[ev.FrameEntered]) -> bool:
        return any(entered.graph in self.compiled or entered.limit_hit for entered in frames)

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


def _free_entries(last: ev.FrameEntered, entries: int, *, compiled: bool) -> int | None:
    """Return how many entries fit after the last compile of a frame that has this number of `entries`."""
    counted = entries if last.counted_entries is None else last.counted_entries + compiled
    total = entries if last.total_entries is None else last.total_entries + compiled
    free = [
        limit - used for limit, used in ((last.limit, counted), (last.accumulated_limit, total)) if limit is not None
    ]
    return max(min(free), 0) if free else None


def _frame(number: str, frames: list[ev.FrameEntered], facts: _EntryFacts) -> FrameEntries:
    last = frames[-1]
    entries = tuple(facts.entry(entered) for entered in frames if entered.graph in facts.compiled)
    compiled = last.graph in facts.compiled and not last.limit_hit
    return FrameEntries(
        number=number,
        location=last.frame,
        resumed=last.resumed,
        entries=entries,
        free_entries=_free_entries(last, len(entries), compiled=compiled),
        isolated=last.isolation >= 0,
        over_limit=tuple(facts.entry(entered) for entered in frames if entered.limit_hit),
        limit=last.limit,
        accumulated_limit=last.accumulated_limit,
        limit_hit=last.limit_hit,
        error_at_limit=last.error_at_limit,
    )


def newest_causes(snapshot: Snapshot) -> Iterator[tuple[ev.Recompiled, int]]:
    """Return each recompile with the newest entry that did not match, and the number of older ones.

    torch names every entry that did not match, newest first.
    """
    by_graph: dict[str, list[ev.Recompiled]] = {}
    for recompile in snapshot.recompiles:
        by_graph.setdefault(recompile.graph, []).append(recompile)
    return ((entries[0], len(entries) - 1) for entries in by_graph.values())


def resumed_frames(snapshot: Snapshot) -> dict[str, ev.Location | None]:
    """Return the location of each resume function after a graph break, by the compile ids of its entries."""
    return {entered.graph: entered.frame for entered in snapshot.frames if entered.resumed}


def resumes_at(graph_break: ev.GraphBreak, frame: ev.Location | None) -> bool:
    """Return whether the frame of a resume function is at a line of a graph break, or of a call on its stack."""
    places = (place for place in (graph_break.location, *graph_break.stack) if place is not None)
    return frame is not None and any((place.file, place.line) == (frame.file, frame.line) for place in places)


def constants_after(snapshot: Snapshot, graph_break: ev.GraphBreak) -> tuple[ev.Guard, ...]:
    """Return the guards on results of what breaks the graph: its resume function was compiled for these values.

    Those of its newest entry: a value that has changed before may be dynamic by now.
    """
    resumed = resumed_frames(snapshot).items()
    newest = {frame_number(graph): graph for graph, frame in resumed if resumes_at(graph_break, frame)}
    return tuple(
        guard
        for installed in snapshot.guards
        if installed.graph in newest.values()
        for guard in installed.guards
        if guard.is_of_break_value
    )


def value_recompiles(tried: ev.OtherValuesTried, graph_break: ev.GraphBreak) -> tuple[ev.ValueRecompile, ...]:
    """Return the recompiles of the code after a break in calls with other values."""
    return tuple(each for each in tried.recompiles if resumes_at(graph_break, each.frame))


@dataclass(frozen=True, slots=True)
class GuardDiff:
    """A guard of one entry only (the other side is None), or two guards on the same value."""

    before: ev.Guard | None
    after: ev.Guard | None


def guards_of(snapshot: Snapshot, graph: str) -> ev.GuardsInstalled | None:
    """Return the guards of the entry with this compile id."""
    return next((installed for installed in snapshot.guards if installed.graph == graph), None)


def guard_diff(one: ev.GuardsInstalled, other: ev.GuardsInstalled) -> tuple[GuardDiff, ...]:
    """Return the differences, without structural guards: first values that both entries check, then the others."""
    before, after = _by_key(one), _by_key(other)
    both = [key for key in before if key in after]
    changed = [GuardDiff(before[k], after[k]) for k in both if _text(before[k]) != _text(after[k])]
    gone = [GuardDiff(guard, None) for key, guard in before.items() if key not in after]
    new = [GuardDiff(None, guard) for key, guard in after.items() if key not in before]
    return (*changed, *_paired(gone, new))


def _paired(gone: list[GuardDiff], new: list[GuardDiff]) -> Iterator[GuardDiff]:
    """Pair guards of different kinds on the same value: `lr == 0.1` and the type of `lr`."""
    left = list(new)
    for difference in gone:
        source = difference.before.source if difference.before else ""
        match = next((other for other in left if source and other.after and other.after.source == source), None)
        if match is not None:
            left.remove(match)
            yield GuardDiff(difference.before, match.after)
        else:
            yield difference
    yield from left


def _by_key(installed: ev.GuardsInstalled) -> dict[tuple[str, ...], ev.Guard]:
    return {_key(guard): guard for guard in installed.guards if not guard.structural}


def _key(guard: ev.Guard) -> tuple[str, ...]:
    """Return the identity of a guard; conditions on sizes have no source and are identified by their text."""
    return (guard.kind, guard.source) if guard.source else (guard.kind, *_text(guard))


def _text(guard: ev.Guard) -> tuple[str, ...]:
    return (guard.summary,) if guard.summary else guard.code
