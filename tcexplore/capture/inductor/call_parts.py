"""Parts of the time of one call, from the profiler's tree: the host's parts, and the device's work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

from tcexplore.capture.inductor.profiler_tree import CALL, GRAPH, KERNEL, DeviceWork, ProfilerEvent, busy_us, gaps_us
from tcexplore.events import CallPart, CallProfiled, PartKind

EventKind = PartKind | Literal["profiler"]

PARTS: tuple[tuple[str, EventKind], ...] = (
    (CALL, "python"),
    (GRAPH, "wrapper"),
    ("TorchDynamo Cache Lookup", "guards"),
    ("Torch-Compiled Region", "dispatch"),
    ("Pregraph bytecode", "dispatch"),
    ("AOTDispatcher Runtime Wrapper Prologue", "prologue"),
    ("AOTDispatcher Runtime Wrapper Epilogue", "epilogue"),
    ("## Call CompiledFxGraph", "wrapper"),
    ("CompiledFunctionBackward", "wrapper"),
    ("CompiledFunction", "dispatch"),
    ("cudaDeviceSynchronize", "waiting"),
    ("hipDeviceSynchronize", "waiting"),
)
"""Prefixes of event names and the part that an event's self time belongs to."""

GRAPHS = ("## Call CompiledFxGraph", "CompiledFunctionBackward", GRAPH)
"""Prefixes of events whose ops are called by generated code."""

PROFILER = "Activity Buffer Request"
"""The profiler's own work, which is not part of a call."""

Part = tuple[EventKind, str, str, float]
"""Kind, name, graph and microseconds."""


def call_parts(events: Sequence[ProfilerEvent], work: Sequence[DeviceWork], names: frozenset[str]) -> CallProfiled:
    """Return the mean of the profiled calls; `names` are the launch names of generated kernels."""
    parts: dict[tuple[PartKind, str, str], list[float]] = defaultdict(list)
    calls = [event for event in events if event.host and event.name == CALL]
    times = len(calls)
    for call in calls:
        for kind, name, graph, microseconds in _parts(call, "python", "", names):
            if kind != "profiler":
                parts[kind, name, graph].append(microseconds)
    total = sum(sum(durations) for durations in parts.values()) / times
    for piece in work:
        parts["device", piece.name, piece.graph].append(piece.us)
    means = [
        CallPart(
            kind=kind,
            name=name,
            graph=graph,
            count=round(len(durations) / times) if name else 1,
            us=sum(durations) / times,
        )
        for (kind, name, graph), durations in parts.items()
    ]
    gaps = sum(gaps_us([piece for piece in work if piece.call is call]) for call in calls)
    return CallProfiled(
        total_us=total,
        repeats=times,
        parts=tuple(sorted(means, key=lambda part: -part.us)),
        device_busy_us=busy_us(work) / times if work else None,
        launch_gaps_us=gaps / times if work else None,
        device_tasks=round(len(work) / times),
        launches=round(len({(piece.call, piece.launch) for piece in work}) / times),
        replays=round(len({(piece.call, piece.launch) for piece in work if piece.replayed}) / times),
        replayed_tasks=round(sum(piece.replayed for piece in work) / times),
    )


def _parts(event: ProfilerEvent, outer_part: EventKind, graph: str, names: frozenset[str]) -> Iterator[Part]:
    """Yield the parts of an event and its children; their times add up to the event's."""
    kind = _kind(event, names, in_graph=bool(graph))
    if kind is not None:
        yield kind, _name(event), graph if kind in ("kernel", "extern") else "", event.us
        return
    part = next((part for prefix, part in PARTS if event.name.startswith(prefix)), outer_part)
    inner_graph = _graph(event) if event.name.startswith(GRAPH) else graph or _graph(event)
    yield part, "", "", max(0.0, event.us - sum(child.us for child in event.children))
    for child in event.children:
        yield from _parts(child, part, inner_graph, names)


def _kind(event: ProfilerEvent, names: frozenset[str], *, in_graph: bool) -> EventKind | None:
    """Return the kind of an event that counts as a whole, None for one that is split into its children."""
    if event.name == PROFILER:
        return "profiler"
    if event.name.startswith(KERNEL) or event.name in names:
        return "kernel"
    is_part = event.name.startswith(tuple(prefix for prefix, _ in PARTS))
    if is_part or "::" not in event.name or event.name.startswith(("autograd::", "torch::")):
        return None
    return "extern" if in_graph else "outside"


def _name(event: ProfilerEvent) -> str:
    return event.name.removeprefix(KERNEL).replace("::", ".")


def _graph(event: ProfilerEvent) -> str:
    """Return `0/0 forward` for a marked graph, a space for an unmarked one, empty for any other event."""
    if event.name.startswith(GRAPH):
        return event.name.removeprefix(GRAPH)
    return " " if event.name.startswith(GRAPHS) else ""
