"""Profile of a warm call: torch's profiler, with marks around graphs and C++ kernels, and the parts of its time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import PurePath
from time import perf_counter
from typing import Any, Literal

import torch

from tcexplore.capture.dynamo.eager_ops import quiet_profiler
from tcexplore.capture.inductor.kernel_times import kernel_times, launch_names
from tcexplore.capture.inductor.profiler_tree import (
    CALL,
    GRAPH,
    KERNEL,
    DeviceWork,
    ProfilerEvent,
    busy_us,
    device_work,
    faster_half,
    gaps_us,
    profiler_tree,
)
from tcexplore.events import CallPart, CallProfiled, Kernel, KernelTimed, PartKind, Wrapper

CALLS = 9
MIN_CALLS = 3
MAX_SECONDS = 2.0
"""Maximum number of profiled calls; after `MAX_SECONDS` and `MIN_CALLS` no further call begins."""


def profile_call(
    call: Callable[[], object], reset: Callable[[], None], kernels: Sequence[Kernel], wrappers: Sequence[Wrapper]
) -> Iterator[CallProfiled | KernelTimed]:
    """Profile a warm `call()` several times and yield the times of one call, in microseconds.

    `reset` runs after each call and is not profiled. `kernels` and `wrappers` are Inductor's for this call. Only the
    faster half of the calls counts, because other load on the machine only ever slows a call down. The profiler adds
    about half a microsecond per op. Exceptions of `call` propagate.
    """
    with _marks(wrappers):
        events = faster_half(profiler_tree(run_profiled(call, reset)))
    work = device_work(events)
    names = frozenset(name for kernel in kernels for name in launch_names(kernel))
    yield call_parts(events, work, names)
    yield from kernel_times(events, work, kernels)


def measure_device_busy(call: Callable[[], object], reset: Callable[[], None]) -> float:
    """Return the microseconds in which the device works in one `call()`, from a profile of several."""
    events = faster_half(profiler_tree(run_profiled(call, reset)))
    calls = sum(event.host and event.name == CALL for event in events)
    return busy_us(device_work(events)) / calls


def run_profiled(call: Callable[[], object], reset: Callable[[], None], calls: int = CALLS) -> list[Any]:
    """Return the profiler's events of up to `calls` marked calls."""
    from torch import cuda
    from torch.profiler import ProfilerActivity, profile, record_function

    on_device = cuda.is_available() and cuda.is_initialized()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_device else [])]
    with quiet_profiler(), profile(activities=activities, acc_events=True) as profiler:
        began = perf_counter()
        for number in range(1 + calls):
            if number > MIN_CALLS and perf_counter() - began > MAX_SECONDS:
                break
            # The first call includes the profiler's own setup and has another mark.
            with record_function(CALL if number else f"{CALL} that does not count"):
                call()
                if on_device:
                    cuda.synchronize()
            reset()
    return list(profiler.events())


def mark(name: str) -> AbstractContextManager[object]:
    """Return a context that is an event in the profile. torch's private class takes 0.1 µs, the public one 3 µs."""
    fast = getattr(getattr(torch._C, "_profiler", None), "_RecordFunctionFast", torch.profiler.record_function)
    context: AbstractContextManager[object] = fast(name)
    return context


@contextmanager
def _marks(wrappers: Sequence[Wrapper]) -> Iterator[None]:
    """Mark each graph and each C++ kernel in the profile; Triton kernels have their own device events."""
    with ExitStack() as stack:
        _mark_graphs(stack, {PurePath(wrapper.path).stem: f"{wrapper.graph} {wrapper.phase}" for wrapper in wrappers})
        _mark_kernels(stack)
        yield


def _mark_graphs(stack: ExitStack, graphs: dict[str, str]) -> None:
    """Mark graphs, which are recognized by their cache key: it is also the name of the wrapper's file."""
    from torch._inductor.output_code import CompiledFxGraph

    call = CompiledFxGraph.__call__

    def marked(self: Any, *args: Any, **kwargs: Any) -> Any:
        graph = graphs.get(str(getattr(self, "cache_key", None)))
        if graph is None:
            return call(self, *args, **kwargs)
        with mark(GRAPH + graph):
            return call(self, *args, **kwargs)

    stack.callback(setattr, CompiledFxGraph, "__call__", call)
    setattr(CompiledFxGraph, "__call__", marked)  # noqa: B010 - mypy rejects the assignment where torch is installed


def _mark_kernels(stack: ExitStack) -> None:
    from torch._inductor.codecache import PyCodeCache

    for module in PyCodeCache.modules:
        scope = vars(module)
        for name in [name for name, value in scope.items() if name.startswith("cpp_") and callable(value)]:
            stack.callback(partial(scope.__setitem__, name, scope[name]))
            scope[name] = _marked(scope[name], KERNEL + name)


def _marked(kernel: Callable[..., Any], name: str) -> Callable[..., Any]:
    def marked(*args: Any, **kwargs: Any) -> Any:
        with mark(name):
            return kernel(*args, **kwargs)

    return marked


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
