"""What the time of one call was spent on, from the profiler's tree: the host's time part by part, and the device's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tcexplore.capture.inductor.device_work import Work, busy, gaps
from tcexplore.capture.inductor.profiler_tree import CALL, GRAPH, KERNEL, Seen
from tcexplore.events import CallPart, CallProfiled

OWN = (
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
"""What begins with this name stands for this part with the time that nothing inside it takes."""

GRAPHS = ("## Call CompiledFxGraph", "CompiledFunctionBackward", GRAPH)
"""Ops inside these are called by generated code."""

PROFILER = "Activity Buffer Request"
"""The profiler's own work, which is no part of a call."""

Part = tuple[str, str, str, float]
"""Kind, name, graph and microseconds."""


def parts_of(found: Sequence[Seen], work: Sequence[Work], names: frozenset[str]) -> CallProfiled:
    """The mean of the calls in `found`. `names` are those under which generated kernels are launched."""
    parts: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    calls = [event for event in found if event.host and event.name == CALL]
    times = len(calls)
    for call in calls:
        for kind, name, graph, microseconds in _parts(call, "python", "", names):
            if kind != "profiler":
                parts[kind, name, graph].append(microseconds)
    total = sum(sum(took) for took in parts.values()) / times
    for piece in work:
        parts["device", piece.name, piece.graph].append(piece.us)
    made = [
        CallPart(kind=kind, name=name, graph=graph, count=round(len(took) / times) if name else 1, us=sum(took) / times)
        for (kind, name, graph), took in parts.items()
    ]
    return CallProfiled(
        total_us=total,
        times=times,
        parts=tuple(sorted(made, key=lambda part: -part.us)),
        busy_us=busy(work) / times if work else None,
        gaps_us=sum(gaps([piece for piece in work if piece.call is call]) for call in calls) / times if work else None,
        works=round(len(work) / times),
        launches=round(len({(piece.call, piece.launch) for piece in work}) / times),
        replays=round(len({(piece.call, piece.launch) for piece in work if piece.replayed}) / times),
        replayed=round(sum(piece.replayed for piece in work) / times),
    )


def _parts(event: Seen, around: str, graph: str, names: frozenset[str]) -> Iterator[Part]:
    """What an event and those inside it stand for; the times add up to its own."""
    kind = _kind(event, names, in_graph=bool(graph))
    if kind is not None:
        yield kind, _name(event), graph if kind in ("kernel", "extern") else "", event.us
        return
    own = next((own for name, own in OWN if event.name.startswith(name)), around)
    inside = graph or _graph(event)
    yield own, "", "", max(0.0, event.us - sum(child.us for child in event.children))
    for child in event.children:
        yield from _parts(child, own, inside if not event.name.startswith(GRAPH) else _graph(event), names)


def _kind(event: Seen, names: frozenset[str], *, in_graph: bool) -> str | None:
    """The kind of an event that is told as a whole, None for one whose inside is told."""
    if event.name == PROFILER:
        return "profiler"
    if event.name.startswith(KERNEL) or event.name in names:
        return "kernel"
    known = event.name.startswith(tuple(name for name, _ in OWN))
    if known or "::" not in event.name or event.name.startswith(("autograd::", "torch::")):
        return None
    return "extern" if in_graph else "outside"


def _name(event: Seen) -> str:
    return event.name.removeprefix(KERNEL).replace("::", ".")


def _graph(event: Seen) -> str:
    """`0/0 forward` for a graph that is marked, ` ` for one that is not."""
    if event.name.startswith(GRAPH):
        return event.name.removeprefix(GRAPH)
    return " " if event.name.startswith(GRAPHS) else ""
