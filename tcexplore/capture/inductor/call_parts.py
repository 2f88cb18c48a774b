"""The parts of a call, from the profiler's events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import fmean, median
from typing import Literal, NamedTuple

from tcexplore.capture.dynamo.eager_ops import MARK
from tcexplore.capture.inductor.kernel_steps import KernelStep, kernel_steps, launch_names
from tcexplore.capture.inductor.profiler_tree import (
    CALIBRATION,
    CALL,
    GRAPH,
    KERNEL,
    DeviceWork,
    ProfilerEvent,
    busy_us,
    calls_near,
    device_work,
    faster_half,
    gaps_us,
)
from tcexplore.events import CallPart, CallProfiled, Kernel, PartKind

MARKS = 50
"""Cheap ops and empty ranges from which the profiler's cost of an event is known."""

Named = tuple[PartKind, str]

PARTS: tuple[tuple[str, Named], ...] = (
    (CALL, ("Python", "")),
    (GRAPH, ("launch", "wrapper")),
    (MARK, ("launch", "graph")),
    ("TorchDynamo Cache Lookup", ("guards", "")),
    ("Torch-Compiled Region", ("launch", "bytecode")),
    ("Pregraph bytecode", ("launch", "bytecode")),
    ("AOTDispatcher Runtime Wrapper Prologue", ("launch", "AOT prologue")),
    ("AOTDispatcher Runtime Wrapper Epilogue", ("launch", "AOT epilogue")),
    ("## Call CompiledFxGraph", ("launch", "wrapper")),
    ("CompiledFunctionBackward", ("launch", "wrapper")),
    ("CompiledFunction", ("launch", "bytecode")),
)
"""Prefixes of event names, and the part that an event's self time belongs to."""

HOST_KINDS = ("launch", "Python")
"""Parts of the host that do no work of the program."""

GRAPHS = ("## Call CompiledFxGraph", "CompiledFunctionBackward", MARK)
"""Prefixes of events whose ops are called by generated code."""

UNKNOWN_GRAPH = " "

PROFILER = "Activity Buffer Request"
"""The profiler's own work, which is not part of a call."""

REGION = "Torch-Compiled Region"

Device = Literal["cpu", "cuda"]


class Round(NamedTuple):
    """One use of the profiler."""

    events: Sequence[ProfilerEvent]
    plain_us: Sequence[float] = ()
    """Calls without the profiler, before and after it."""
    plain_ops_us: float = 0.0
    """The cheap ops of the calibration without the profiler."""

    @property
    def calls(self) -> list[ProfilerEvent]:
        return [event for event in self.events if event.host and event.name == CALL]


class PartKey(NamedTuple):
    """What the events of one part have in common."""

    kind: PartKind
    name: str
    graph: str = ""
    """`0/0 forward`, or `UNKNOWN_GRAPH`; empty outside a graph."""
    device: Device = "cpu"


@dataclass(slots=True)
class PartTimes:
    """One part of one call."""

    us: float = 0.0
    launches: int = 0
    functions: dict[str, None] = field(default_factory=dict)
    replayed: bool = False


Parts = dict[PartKey, PartTimes]


def call_parts(rounds: Sequence[Round], kernels: Sequence[Kernel], timed_us: float | None = None) -> CallProfiled:
    """Return the parts of a call: the mean of the profiled calls that count, in microseconds.

    On a CPU, these are the ones that took about as long as the call of the timing, `timed_us`. On a device, they are
    the faster half, because other load on the machine only ever slows a call down.
    """
    work = [piece for one in rounds for piece in device_work(one.events)]
    return _on_device(rounds, kernels, work) if work else _on_host(rounds, kernels, timed_us)


def _on_host(rounds: Sequence[Round], kernels: Sequence[Kernel], timed_us: float | None) -> CallProfiled:
    overhead = _overhead(rounds)
    split = _Split(rounds, kernels, (), overhead)
    parts = {call: split.on_host(call) for one in rounds for call in one.calls}
    plain = [us for one in rounds for us in one.plain_us]
    excess = max(0.0, median(map(_total, parts.values())) - median(plain)) if plain else 0.0
    for call, times in parts.items():
        _shorten_host(times, min(excess, overhead.range_us * sum(map(_is_range, _all_below(call)))))
    totals = {call: _total(times) for call, times in parts.items()}
    used = calls_near(totals, timed_us or median(plain or totals.values()))
    return CallProfiled(
        total_us=fmean(totals[call] for call in used),
        repeats=len(used),
        parts=_means([parts[call] for call in used], [totals[call] for call in used]),
        plain_us=median(plain) if plain else None,
        region_entries=_region_entries(used),
    )


def _on_device(rounds: Sequence[Round], kernels: Sequence[Kernel], work: Sequence[DeviceWork]) -> CallProfiled:
    split = _Split(rounds, kernels, work, Overhead())
    used = faster_half([call for one in rounds for call in one.calls])
    own = {call: [piece for piece in work if piece.call is call] for call in used}
    all_work, times = list(chain.from_iterable(own.values())), len(used)
    replays = [piece for piece in all_work if piece.replayed]
    return CallProfiled(
        total_us=fmean(call.us for call in used),
        repeats=times,
        parts=_means([split.on_device(call, pieces) for call, pieces in own.items()], [1.0] * times),
        region_entries=_region_entries(used),
        device_busy_us=sum(map(busy_us, own.values())) / times,
        launch_gaps_us=sum(map(gaps_us, own.values())) / times,
        device_tasks=round(len(all_work) / times),
        launches=round(_launches(all_work) / times),
        replays=round(_launches(replays) / times),
        replayed_tasks=round(len(replays) / times),
    )


def _launches(work: Sequence[DeviceWork]) -> int:
    return len({(piece.call, piece.launch) for piece in work})


def _region_entries(calls: Sequence[ProfilerEvent]) -> int:
    return round(sum(event.name.startswith(REGION) for call in calls for event in _all_below(call)) / len(calls))


def _all_below(event: ProfilerEvent) -> Iterator[ProfilerEvent]:
    for child in event.children:
        yield child
        yield from _all_below(child)


def _is_range(event: ProfilerEvent) -> bool:
    """Return whether torch's Python code opened the event; ops are cheaper."""
    return event.name.startswith(tuple(prefix for prefix, _ in PARTS)) and not event.name.startswith((CALL, GRAPH))


def _total(parts: Parts) -> float:
    return sum(times.us for times in parts.values())


def _shorten_host(parts: Parts, us: float) -> None:
    """Take the cost of the profiler's ranges, which are outside every op, from the host's parts."""
    host = [times for key, times in parts.items() if key.kind in HOST_KINDS]
    if total := sum(times.us for times in host):
        for times in host:
            times.us *= max(0.0, 1 - us / total)


# ---- cost of the profiler


@dataclass(frozen=True, slots=True)
class Overhead:
    """What the profiler adds to a call, in microseconds."""

    event_us: float = 0.0
    """By each event."""
    range_us: float = 0.0
    """By a range that Python code opens, in addition."""

    @property
    def inside_us(self) -> float:
        """The part of `event_us` within the event's own time: half, since nothing shows where its clock is read."""
        return self.event_us / 2

    def net_us(self, event: ProfilerEvent) -> float:
        """Return the time of an event and all below it, without the profiler's cost."""
        return max(0.0, event.us - self.inside_us - self.event_us * sum(1 for _ in _all_below(event)))

    def net_self_us(self, event: ProfilerEvent) -> float:
        """Return the time of an event that is in none of its children, without the profiler's cost."""
        children = sum(child.us for child in event.children)
        around = (self.event_us - self.inside_us) * len(event.children)
        return max(0.0, event.us - children - self.inside_us - around)


def _overhead(rounds: Sequence[Round]) -> Overhead:
    """Return the profiler's cost, from cheap ops and empty ranges within and without it."""
    events = [event for one in rounds for event in one.events]
    ops = [event for event in events if event.name == CALIBRATION + "ops"]
    empty = [event.us for event in events if event.name == CALIBRATION + "range"]
    if not ops or not empty:
        return Overhead()
    many = median(sum(1 for _ in _all_below(event)) for event in ops)
    added = min(event.us for event in ops) - median(one.plain_ops_us for one in rounds)
    event_us = max(0.0, added / many) if many else 0.0
    ranges = min(event.us for event in events if event.name == CALIBRATION + "ranges") / MARKS
    return Overhead(event_us, max(0.0, ranges - event_us))


# ---- parts


class _Split:
    """Splits calls into parts."""

    def __init__(
        self, rounds: Sequence[Round], kernels: Sequence[Kernel], work: Sequence[DeviceWork], overhead: Overhead
    ) -> None:
        self._names = frozenset(name for kernel in kernels for name in launch_names(kernel))
        self._steps: dict[ProfilerEvent | DeviceWork, KernelStep] = {}
        self._overhead = overhead
        for one in rounds:
            self._steps.update(kernel_steps(one.events, work, kernels))

    def on_host(self, call: ProfilerEvent) -> Parts:
        """Return the parts of a call, which add up to its time without the profiler's cost."""
        parts: Parts = {}
        self._add(parts, call, ("Python", ""), "")
        return parts

    def on_device(self, call: ProfilerEvent, work: Sequence[DeviceWork]) -> Parts:
        """Return the device's work in a call, and of the host: guards, C++ kernels, and ops that launch nothing."""
        parts: Parts = {}
        seen: set[int] = set()
        for piece in work:
            step = self._steps.get(piece)
            times = parts.setdefault(_key_of_work(piece, step), PartTimes(replayed=piece.replayed))
            times.us += piece.us
            times.functions[piece.name] = None
            times.launches += step is None or id(step) not in seen
            seen.add(id(step))
        names = {(key.kind, key.name) for key in parts}
        for key, times in self.on_host(call).items():
            if key.kind == "guards" or (key.kind in ("kernel", "eager op") and (key.kind, key.name) not in names):
                parts[key] = replace(times, us=0.0) if key.kind == "eager op" else times
        return parts

    def _add(self, parts: Parts, event: ProfilerEvent, outer: Named, graph: str) -> None:
        """Add an event and its children; their times add up to the event's."""
        if event.name == PROFILER:
            return
        if (key := self._key_of_whole(event, graph)) is not None:
            times = parts.setdefault(key, PartTimes())
            times.us += self._overhead.net_us(event)
            times.launches += 1
            return
        named = next((part for prefix, part in PARTS if event.name.startswith(prefix)), outer)
        times = parts.setdefault(PartKey(*named), PartTimes(launches=1))
        times.us += self._overhead.net_self_us(event)
        for child in event.children:
            self._add(parts, child, named, _graph(event) or graph)

    def _key_of_whole(self, event: ProfilerEvent, graph: str) -> PartKey | None:
        """Return the part of an event that counts as a whole, None for one that is split into its children."""
        if (step := self._steps.get(event)) is not None:
            return PartKey("kernel", step.kernel.name, f"{step.kernel.graph} {step.kernel.phase}")
        if event.name.startswith(KERNEL) or event.name in self._names:
            return PartKey("kernel", event.name.removeprefix(KERNEL), graph)
        return PartKey("library" if graph else "eager op", _op_name(event), graph) if _is_op(event) else None


def _is_op(event: ProfilerEvent) -> bool:
    is_part = event.name.startswith(tuple(prefix for prefix, _ in PARTS))
    return "::" in event.name and not is_part and not event.name.startswith(("autograd::", "torch::"))


def _op_name(event: ProfilerEvent) -> str:
    return event.name.replace("::", ".")


def _key_of_work(piece: DeviceWork, step: KernelStep | None) -> PartKey:
    if step is not None:
        return PartKey("kernel", step.kernel.name, f"{step.kernel.graph} {step.kernel.phase}", "cuda")
    if piece.graph:
        return PartKey("library", piece.name, piece.graph, "cuda")
    above = piece.launch.with_ancestors() if piece.launch is not None else ()
    op = next((event for event in reversed(list(above)) if _is_op(event)), None)
    return PartKey("eager op", piece.name if op is None else _op_name(op), "", "cuda")


def _graph(event: ProfilerEvent) -> str:
    """Return `0/0 forward` for a marked graph, `UNKNOWN_GRAPH` for another one, empty for any other event."""
    if event.name.startswith(GRAPH):
        return event.name.removeprefix(GRAPH)
    return UNKNOWN_GRAPH if event.name.startswith(GRAPHS) else ""


def _means(calls: Sequence[Mapping[PartKey, PartTimes]], totals: Sequence[float]) -> tuple[CallPart, ...]:
    """Return the mean of each part, with the range of its shares of the `totals`; the longest part first."""
    whole = fmean(totals)
    means = []
    for key in dict.fromkeys(key for call in calls for key in call):
        own = [call.get(key) or PartTimes() for call in calls]
        shares = [times.us / total for times, total in zip(own, totals, strict=True)]
        graph, _, phase = key.graph.strip().rpartition(" ")
        mean = CallPart(
            kind=key.kind, name=key.name, graph=graph, phase=phase, us=fmean(times.us for times in own),
            low_us=min(shares) * whole, high_us=max(shares) * whole, device=key.device,
            launches=max(1, round(fmean(times.launches for times in own))),
            functions=tuple(dict.fromkeys(name for times in own for name in times.functions)),
            replayed=own[0].replayed,
        )  # fmt: skip
        if mean.us or mean.kind == "eager op":
            means.append(mean)
    return tuple(sorted(means, key=lambda part: -part.us))
