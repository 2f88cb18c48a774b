"""Where compiling spent its time: torch's own spans as a tree, and how much of the calls they account for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tcexplore import events as ev
from tcexplore.session.snapshot import Snapshot

CHAIN = 0.97
"""A span that one span inside it takes this share of is shown as one with it."""

SMALL = 0.01
"""What takes less than this share of all compiling is summed up as the rest of its span."""


@dataclass(frozen=True, slots=True)
class CompileSpan:
    """A span and those inside it, the longest first. `seconds` includes them; `count` spans of one name are one."""

    name: str
    seconds: float
    graph: str | None = None
    children: tuple[CompileSpan, ...] = ()
    count: int = 1

    @property
    def self_seconds(self) -> float:
        """Seconds that no span inside accounts for."""
        return max(0.0, self.seconds - sum(span.seconds for span in self.children))


@dataclass(frozen=True, slots=True)
class CompileTime:
    """`roots` account for `seconds` of the `wall` seconds that the calls took which compiled; `wall` is None where no
    call was timed.

    In those calls, `running` seconds went into running what was compiled, and `frames` into Dynamo looking at frames
    outside its spans. Both are measured, beside the spans; None where they were not.
    """

    roots: tuple[CompileSpan, ...]
    seconds: float
    wall_seconds: float | None
    graph_seconds: float | None = None
    frame_seconds: float | None = None

    @property
    def share(self) -> float | None:
        """The share of the calls' time that the spans account for."""
        return self.seconds / self.wall_seconds if self.wall_seconds else None

    @property
    def coverage(self) -> float | None:
        """The share of the calls' time that is accounted for, by a span or by what was measured beside them."""
        return (
            (self.seconds + (self.graph_seconds or 0.0) + (self.frame_seconds or 0.0)) / self.wall_seconds
            if self.wall_seconds
            else None
        )

    @property
    def unaccounted_seconds(self) -> float | None:
        """Seconds of the calls that nothing accounts for: the program's own code between graphs, and guards."""
        if self.wall_seconds is None or self.graph_seconds is None:
            return None
        return max(0.0, self.wall_seconds - self.seconds - self.graph_seconds - (self.frame_seconds or 0.0))


def compile_time(snapshot: Snapshot) -> CompileTime:
    """The tree of a run's compiles; without roots where nothing was compiled."""
    roots = tree(snapshot.phase_times)
    calls = [call for call in snapshot.calls if call.variant == "compiled" and call.compiles]
    return CompileTime(
        roots,
        sum(root.seconds for root in roots),
        sum(call.seconds for call in calls) if calls else None,
        _sum(call.graph_seconds for call in calls),
        _sum(call.frame_seconds for call in calls),
    )


def _sum(measured: Iterable[float | None]) -> float | None:
    known = [seconds for seconds in measured if seconds is not None]
    return sum(known) if known else None


def tree(phases: Iterable[ev.PhaseTimed]) -> tuple[CompileSpan, ...]:
    """The spans in order of their beginning; each arrives after those inside it."""
    waiting: dict[int, list[CompileSpan]] = defaultdict(list)
    for phase in phases:
        inside = _merged(waiting.pop(phase.depth + 1, []))
        waiting[phase.depth].append(CompileSpan(phase.name, phase.seconds, phase.graph, inside))
    return tuple(waiting[0])


def shorten(span: CompileSpan, whole: float) -> CompileSpan:
    """The span without what is too short to matter beside `whole` seconds, and chains of spans as one."""
    large = tuple(shorten(inner, whole) for inner in span.children if inner.seconds >= SMALL * whole)
    if len(large) == 1 and large[0].count == 1 and large[0].seconds >= CHAIN * span.seconds:
        (only,) = large
        return CompileSpan(_chain(span.name, only.name), span.seconds, span.graph, only.children, span.count)
    return CompileSpan(span.name, span.seconds, span.graph, large, span.count)


def _chain(outer: str, inner: str) -> str:
    """Both ends of a chain."""
    between, _, last = inner.rpartition(" › ")
    return f"{outer} › {'… › ' if between else ''}{last}"


def files_compiled(spans: Iterable[CompileSpan]) -> tuple[float, ...]:
    """Seconds of each run of the C++ compiler, the longest first."""
    return tuple(sorted(_files(spans), reverse=True))


def _files(spans: Iterable[CompileSpan]) -> Iterable[float]:
    for span in spans:
        below = list(_files(span.children))
        yield from below
        if span.name == "compile_file" and not below and span.count == 1 and not span.children:
            yield span.seconds


def _merged(spans: list[CompileSpan]) -> tuple[CompileSpan, ...]:
    """Spans of one name as one, but for those of files, which are told apart."""
    kept: dict[object, CompileSpan] = {}
    for number, span in enumerate(spans):
        key = (span.name, number) if span.name == "compile_file" else span.name
        known = kept.get(key)
        kept[key] = span if known is None else _joined(known, span)
    return tuple(sorted(kept.values(), key=lambda span: -span.seconds))


def _joined(one: CompileSpan, other: CompileSpan) -> CompileSpan:
    inside = _merged([*one.children, *other.children])
    return CompileSpan(one.name, one.seconds + other.seconds, one.graph, inside, one.count + other.count)


COMPILE, RECOMPILE, WARM = "compile", "recompile", "warm"


@dataclass(frozen=True, slots=True)
class CompiledCall:
    """One compiled call; `number` counts from 1. `why` are the guards that failed, where it compiled again."""

    number: int
    kind: str
    seconds: float
    causes: tuple[ev.Recompiled, ...] = ()


def compiled_calls(snapshot: Snapshot) -> tuple[CompiledCall, ...]:
    """Every compiled call of a run, in order."""
    calls = [call for call in snapshot.calls if call.variant == "compiled"]
    return tuple(_made(call, number, snapshot) for number, call in enumerate(calls, 1))


def _made(call: ev.CallMade, number: int, snapshot: Snapshot) -> CompiledCall:
    why = tuple(_first_of_each(again for again in snapshot.recompiles if again.graph in call.graphs))
    what = RECOMPILE if why else COMPILE if call.compiles else WARM
    return CompiledCall(number, what, call.seconds, why)


def _first_of_each(found: Iterator[ev.Recompiled]) -> Iterator[ev.Recompiled]:
    """The guard of the newest entry: each older entry of the same frame has one more that failed."""
    seen = set()
    for again in found:
        if again.graph not in seen:
            seen.add(again.graph)
            yield again
