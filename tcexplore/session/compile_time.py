"""Breakdown of the compile time: torch's spans as a tree, the compiled calls, and a timeline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from tcexplore import events as ev
from tcexplore.events.base import backward_number
from tcexplore.session.cache_entries import newest_causes
from tcexplore.session.links import region_path, region_title
from tcexplore.session.snapshot import Snapshot

CHAIN = 0.97
"""Minimum share of a span that its only child must have to be merged with it."""

SMALL = 0.01
"""Spans below this share of all compile time are not listed."""


@dataclass(frozen=True, slots=True)
class CompileSpan:
    """A span of compile time."""

    name: str
    seconds: float
    """Including children."""
    graph: str | None = None
    children: tuple[CompileSpan, ...] = ()
    """Longest first."""
    count: int = 1
    """Number of merged spans of this name."""

    @property
    def self_seconds(self) -> float:
        """Seconds without children."""
        return max(0.0, self.seconds - sum(span.seconds for span in self.children))

    def join(self, other: CompileSpan) -> CompileSpan:
        """Return both spans as one, with the children of both."""
        children = (*self.children, *other.children)
        return replace(self, seconds=self.seconds + other.seconds, children=children, count=self.count + other.count)


@dataclass(frozen=True, slots=True)
class CompileTime:
    """Compile spans of a run, and the calls that compiled. A figure that was not measured is None."""

    roots: tuple[CompileSpan, ...]
    seconds: float
    """Sum of the roots."""
    wall_seconds: float | None
    """Duration of the calls that compiled."""
    graph_seconds: float | None = None
    """Time in compiled graphs during these calls."""
    frame_seconds: float | None = None
    """Time that Dynamo spends on frames outside the spans during these calls."""

    @property
    def share(self) -> float | None:
        """Share of the calls' time that the spans account for."""
        return self.seconds / self.wall_seconds if self.wall_seconds else None

    @property
    def coverage(self) -> float | None:
        """Share of the calls' time that the spans and the measurements account for."""
        return (
            (self.seconds + (self.graph_seconds or 0.0) + (self.frame_seconds or 0.0)) / self.wall_seconds
            if self.wall_seconds
            else None
        )

    @property
    def unaccounted_seconds(self) -> float | None:
        """Remaining seconds of the calls: user code between graphs, and guards."""
        if self.wall_seconds is None or self.graph_seconds is None:
            return None
        return max(0.0, self.wall_seconds - self.seconds - self.graph_seconds - (self.frame_seconds or 0.0))


def compile_time(snapshot: Snapshot) -> CompileTime:
    """Return the spans of a run; there are no roots if nothing was compiled."""
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


CompileStage = Literal[
    "Dynamo", "AOTAutograd", "Inductor", "C++ compiler", "compile workers", "autotuning", "compiled code", "frames"
]
"""`compile workers`: the process waits for kernels that other processes compile. `compiled code`: the first run of what
was compiled. `frames`: Dynamo's work on frames outside its spans."""

_STAGES: tuple[tuple[str, CompileStage], ...] = (
    ("compile_file", "C++ compiler"),
    ("async_compile.wait", "compile workers"),
    ("CachingAutotuner.", "autotuning"),
    ("benchmark_", "autotuning"),
    ("create_aot_dispatcher_function", "AOTAutograd"),
    ("aot_", "AOTAutograd"),
    ("min_cut_rematerialization_partition", "AOTAutograd"),
    ("inductor_compile", "Inductor"),
    ("compile_fx", "Inductor"),
    ("fx_codegen_and_compile", "Inductor"),
    ("GraphLowering.", "Inductor"),
    ("Scheduler.", "Inductor"),
    ("_recursive_", "Inductor"),
    ("entire_backward_compile", "AOTAutograd"),
    ("backend_compile", "AOTAutograd"),
    ("entire_frame_compile", "Dynamo"),
    ("dynamo", "Dynamo"),
)
"""Stages by the beginnings of the names of torch's spans; any other span belongs to the stage around it."""


@dataclass(frozen=True, slots=True)
class CriticalSegment:
    """What the first calls wait for during some time."""

    stage: CompileStage
    graph: str
    """Compile id; empty outside the spans."""
    seconds: float
    at: float | None
    """Start in seconds since the job arrived; None if it is spread over the calls."""
    waits_for: str = ""
    """The kernel of this graph and phase that takes longest to compile, if other processes compile them."""


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """What the calls that compile wait for, one after the other: no two segments are at the same time."""

    segments: tuple[CriticalSegment, ...]
    wall_seconds: float | None
    """Duration of the calls that compiled, of a script with the backwards; None if it was not measured."""

    @property
    def seconds(self) -> float:
        return sum(segment.seconds for segment in self.segments)

    @property
    def share(self) -> float | None:
        """Share of the calls' time that is on the path."""
        return self.seconds / self.wall_seconds if self.wall_seconds else None


def critical_path(snapshot: Snapshot) -> CriticalPath:
    """Return the critical path of the calls that compiled; it has no segments if torch's spans have no times."""
    spent = compile_time(snapshot)
    segments = [_with_wait(snapshot, segment) for segment in _segments(snapshot.phase_times)]
    rest: tuple[tuple[CompileStage, float | None], ...] = (
        ("frames", spent.frame_seconds),
        ("compiled code", spent.graph_seconds),
    )
    segments += [CriticalSegment(stage, "", seconds, None) for stage, seconds in rest if seconds and segments]
    return CriticalPath(tuple(segments), spent.wall_seconds or _region_seconds(snapshot))


def _region_seconds(snapshot: Snapshot) -> float | None:
    """Return the duration of a script's calls that compiled, with the backwards that were compiled after them."""
    spans = [(call.at, call.at + call.seconds) for call in snapshot.region_compiles]
    if not spans:
        return None
    spans += [
        (span.at, span.at + span.seconds)
        for span in snapshot.phase_times
        if span.name == _BACKWARD_SPAN and span.at is not None
    ]
    covered, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered


def _segments(phases: Iterable[ev.PhaseTimed]) -> list[CriticalSegment]:
    """Return the innermost span at each time; neighbors of one stage and graph are joined."""
    spans = [(span.at, span.at + span.seconds, span) for span in phases if span.at is not None]
    spans.sort(key=lambda item: (item[0], -item[1], item[2].depth))
    segments: list[CriticalSegment] = []
    opened: list[tuple[float, CompileStage, str]] = []
    now = 0.0

    def advance(until: float) -> None:
        nonlocal now
        while opened:
            end, stage, graph = opened[-1]
            if min(end, until) > now:
                _append(segments, CriticalSegment(stage, graph, min(end, until) - now, now))
                now = min(end, until)
            if end > until:
                return
            opened.pop()

    for start, end, span in spans:
        advance(start)
        around = opened[-1] if opened else None
        now = max(now, start)
        stage = next((stage for name, stage in _STAGES if span.name.startswith(name)), None)
        graph = span.graph or (around[2] if around else "")
        stage = stage or (around[1] if around else "Dynamo")
        opened.append((min(end, around[0]) if around else end, stage, graph))
    advance(float("inf"))
    return segments


def _append(segments: list[CriticalSegment], segment: CriticalSegment) -> None:
    last = segments[-1] if segments else None
    if last is not None and (last.stage, last.graph) == (segment.stage, segment.graph):
        segments[-1] = replace(last, seconds=last.seconds + segment.seconds)
    else:
        segments.append(segment)


def _with_wait(snapshot: Snapshot, segment: CriticalSegment) -> CriticalSegment:
    """Name the slowest kernel of the graph and phase, of a segment that waits for other processes."""
    if segment.stage != "compile workers" or segment.at is None:
        return segment
    backwards = [span for span in snapshot.phase_times if span.name == _BACKWARD_SPAN and span.at is not None]
    backward = any(span.at <= segment.at <= span.at + span.seconds for span in backwards if span.at is not None)
    phase: ev.GraphPhase = "backward" if backward else "forward"
    names = {kernel.name for kernel in snapshot.code.kernels if (kernel.graph, kernel.phase) == (segment.graph, phase)}
    kernels = [kernel for kernel in snapshot.kernel_compiles if kernel.graph == segment.graph and kernel.name in names]
    slowest = max(kernels, key=lambda kernel: kernel.seconds, default=None)
    return replace(segment, waits_for=slowest.name) if slowest is not None else segment


def tree(phases: Iterable[ev.PhaseTimed]) -> tuple[CompileSpan, ...]:
    """Return the spans as trees; a span event arrives after those of its children."""
    waiting: dict[int, list[CompileSpan]] = defaultdict(list)
    for phase in phases:
        children = _merged(waiting.pop(phase.depth + 1, []))
        waiting[phase.depth].append(CompileSpan(phase.name, phase.seconds, phase.graph, children))
    return tuple(waiting[0])


def shorten(span: CompileSpan, whole: float) -> CompileSpan:
    """Return the span without children that are short compared with `whole` seconds, and chains as one span."""
    large = tuple(shorten(inner, whole) for inner in span.children if inner.seconds >= SMALL * whole)
    if len(large) == 1 and large[0].count == 1 and large[0].seconds >= CHAIN * span.seconds:
        (only,) = large
        return CompileSpan(_chain(span.name, only.name), span.seconds, span.graph, only.children, span.count)
    return CompileSpan(span.name, span.seconds, span.graph, large, span.count)


def _chain(outer: str, inner: str) -> str:
    """Name a chain of spans by its ends."""
    between, _, last = inner.rpartition(" › ")
    return f"{outer} › {'… › ' if between else ''}{last}"


def compiler_runs(spans: Iterable[CompileSpan]) -> tuple[float, ...]:
    """Return the seconds of each run of the C++ compiler, longest first: for kernels, and for their headers."""
    return tuple(sorted(_compiler_runs(spans), reverse=True))


def _compiler_runs(spans: Iterable[CompileSpan]) -> Iterable[float]:
    for span in spans:
        below = list(_compiler_runs(span.children))
        yield from below
        if span.name == "compile_file" and not below and span.count == 1 and not span.children:
            yield span.seconds


def _merged(spans: Iterable[CompileSpan]) -> tuple[CompileSpan, ...]:
    """Merge spans of one name, except those of files."""
    joined: dict[object, CompileSpan] = {}
    for number, span in enumerate(spans):
        key = (span.name, number) if span.name == "compile_file" else span.name
        known = joined.get(key)
        joined[key] = span if known is None else _joined(known, span)
    return tuple(sorted(joined.values(), key=lambda span: -span.seconds))


def _joined(one: CompileSpan, other: CompileSpan) -> CompileSpan:
    joined = one.join(other)
    return replace(joined, children=_merged(joined.children))


CallKind = Literal["compile", "recompile", "warm"]


@dataclass(frozen=True, slots=True)
class CompiledCall:
    """One compiled call."""

    number: int
    """Counted from 1."""
    kind: CallKind
    seconds: float
    causes: tuple[ev.Recompiled, ...] = ()
    """Guards that failed, for a recompile."""


def compiled_calls(snapshot: Snapshot) -> tuple[CompiledCall, ...]:
    """Return every compiled call of a run, in order."""
    calls = [call for call in snapshot.calls if call.variant == "compiled"]
    causes = [cause for cause, _ in newest_causes(snapshot)]
    return tuple(_compiled_call(call, number, causes) for number, call in enumerate(calls, 1))


def _compiled_call(call: ev.CallMade, number: int, known: Iterable[ev.Recompiled]) -> CompiledCall:
    causes = tuple(cause for cause in known if cause.graph in call.graphs)
    return CompiledCall(number, "recompile" if causes else "compile" if call.compiles else "warm", call.seconds, causes)


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

    @property
    def recompiles(self) -> int:
        """How many graphs were compiled again: a call may have several, with breaks between them."""
        return sum(not cause.limit_hit for cause in self.causes)


@dataclass(frozen=True, slots=True)
class RegionTimeline:
    """One region on the timeline."""

    region: ev.RegionCreated
    calls: ev.RegionCalls | None
    """None before the first call."""
    marks: tuple[CompileMark, ...]
    """In chronological order."""
    module: str | None = None
    """Path of the module that it compiles; None if there is none, or it is unknown."""

    @property
    def name(self) -> str:
        """Its name, with the path of the module: `Block layers.0`."""
        return region_title(self.region, self.module)


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
    regions = [
        RegionTimeline(r, calls.get(r.region), tuple(marks.get(r.region, ())), region_path(snapshot, r.region))
        for r in snapshot.regions
    ]
    regions.sort(key=lambda region: region.calls is None)
    return Timeline(tuple(regions), max([0.0, *(end for region in regions for end in _ends(region))]))


def _ends(region: RegionTimeline) -> Iterator[float]:
    yield from (mark.at + mark.seconds for mark in region.marks)
    if region.calls is not None:
        yield len(region.calls.activity) * region.calls.bin_s


def _marks(snapshot: Snapshot) -> dict[int, list[CompileMark]]:
    """Return the marks of each region in chronological order."""
    causes = {cause.graph: cause for cause, _ in newest_causes(snapshot)}
    reasons = {capture.backward: capture.reason for capture in snapshot.backward_captures}
    marks: dict[int, list[CompileMark]] = {}
    for call in snapshot.region_compiles:
        failed = tuple(causes[graph] for graph in call.graphs if graph in causes)
        number = backward_number(call.graphs[0]) if call.graphs else ""
        reason = reasons.get(number, "") if number not in _FIRST_CAPTURES else None
        kind: MarkKind = RECOMPILE if failed else COMPILE
        mark = CompileMark(kind, call.at, call.seconds, call.graphs, call.call, failed, reason)
        marks.setdefault(call.region, []).append(mark)
    regions = {known.graph: known.region for known in snapshot.region_graphs}
    for span in snapshot.phase_times:
        if span.name == _BACKWARD_SPAN and span.graph in regions and span.at is not None:
            failed = (causes[span.graph],) if span.graph in causes else ()
            kind = BACKWARD_AGAIN if failed else BACKWARD
            mark = CompileMark(kind, span.at, span.seconds, (span.graph or "",), causes=failed)
            marks.setdefault(regions[span.graph], []).append(mark)
    return {region: sorted(own, key=lambda mark: mark.at) for region, own in marks.items()}
