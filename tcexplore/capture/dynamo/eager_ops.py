"""Ops that a call of the compiled program runs outside every graph, from profiles of a few calls."""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import EagerOps

FACT = "eager ops"
INSTALL_GRAPH = "torch._dynamo.output_graph:OutputGraph.install_global_unsafe"

MARK = "tcexplore: graph"
"""The name of the profiler range around each compiled graph."""

PROFILES = 3
REPEAT_S = 0.3
"""Number of profiled calls, and seconds after which none is begun."""

GRAPH_PREFIX = "__compiled_fn"
_REGION = "Torch-Compiled Region"
_BACKWARD = "CompiledFunctionBackward"
_OP = re.compile(r"^(?!(?:autograd|profiler|torch|tcexplore)::)(\w+)::(\w+)")


class EagerOpsUnknownError(RuntimeError):
    """This torch does not show which ops run in a graph."""


class _GraphGlobal(NamedTuple):
    """A compiled graph: a global that Dynamo's bytecode calls."""

    scope: dict[str, Any]
    name: str


_graphs: list[_GraphGlobal] | None = None
"""The compiled graphs of this process, None until `install`."""


def install(hooks: Hooks, _trace: StructuredTrace, _user_files: UserFiles) -> None:
    """Record the compiled graphs for `measure_eager_ops`."""
    global _graphs
    if hooks.watch(FACT, INSTALL_GRAPH, after=_graph_installed):
        _graphs = _graphs or []


def _graph_installed(_result: Any, output_graph: Any, name: str, _value: Any) -> None:
    if name.startswith(GRAPH_PREFIX) and _graphs is not None:
        _graphs.append(_GraphGlobal(output_graph.global_scope, name))


def measure_eager_ops(call: Callable[[], object], reset: Callable[[], object] = lambda: None) -> EagerOps:
    """Profile warm calls and list the ops outside every graph, the longest first. Times are in microseconds.

    The call with the shortest ops counts: others may include the start of a thread or an interruption. `reset` restores
    the state of the program after a call.

    torch's "Torch-Compiled Region" does not help: it contains everything that the compiled frame runs, including ops
    between two graphs. So each graph is marked for this call. Ops called by other ops are not counted. Raises
    `EagerOpsUnknownError`, and exceptions of `call`.
    """
    if _graphs is None:
        raise EagerOpsUnknownError(f"this torch has no {INSTALL_GRAPH}")
    profiles: list[list[Any]] = []
    ends = time.perf_counter() + REPEAT_S
    with quiet_profiler(), _marked(_graphs):
        while not profiles or (len(profiles) < PROFILES and time.perf_counter() < ends):
            profiles.append(profile_events(call))
            reset()
    events = min(profiles, key=lambda events: sum(us for _, _, us in iter_eager_ops(events)))
    regions = sum(event.name.startswith(_REGION) for event in events)
    if not regions and any(event.name == MARK for event in events):
        raise EagerOpsUnknownError(f"this torch's profiler shows no {_REGION!r}")
    return EagerOps(ops=_sum_by_name(events), region_entries=regions)


@contextmanager
def _marked(graphs: list[_GraphGlobal]) -> Iterator[None]:
    """Mark each graph that still exists in the profile."""
    originals = {graph.name: (graph.scope, graph.scope[graph.name]) for graph in graphs if graph.name in graph.scope}
    try:
        for name, (scope, original) in originals.items():
            scope[name] = _mark_graph(original)
        yield
    finally:
        for name, (scope, original) in originals.items():
            scope[name] = original


def _mark_graph(graph: Callable[..., Any]) -> Callable[..., Any]:
    from torch.compiler import disable
    from torch.profiler import record_function

    @wraps(graph, updated=())
    def marked(*args: Any, **kwargs: Any) -> Any:
        with record_function(MARK):
            return graph(*args, **kwargs)

    not_traced: Callable[..., Any] = disable(marked)
    return not_traced


@contextmanager
def quiet_profiler() -> Iterator[None]:
    """Keep the profiler's library from logging to the user's stderr when it starts."""
    name = "KINETO_LOG_LEVEL"
    original = os.environ.get(name)
    os.environ[name] = original or "99"
    try:
        yield
    finally:
        if original is None:
            del os.environ[name]


def detach_profiler() -> None:
    """Detach CUPTI, which a profile leaves attached, from the driver: each later launch would be slower.

    torch keeps it attached for CUDA graphs, and says so in `TEARDOWN_CUPTI`: to attach it again may crash. (With 1, the
    profiler's library detaches it in a thread, with which the next profile would compete.) Raises `RuntimeError` if it
    stays attached for another reason.
    """
    from torch import cuda

    if os.environ.get("TEARDOWN_CUPTI") == "0" or not (cuda.is_available() and cuda.is_initialized()):
        return
    libraries = loaded_libraries("libcupti.so")
    if not libraries:
        raise RuntimeError("no libcupti is loaded")
    cuda.synchronize()
    for library in libraries:
        if status := int(ctypes.CDLL(library).cuptiFinalize()):
            raise RuntimeError(f"cuptiFinalize of {library} returned {status}")


def loaded_libraries(name: str) -> list[str]:
    """Return the paths of the shared libraries of that name in this process."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = (line.split(maxsplit=5)[-1].strip() for line in maps if f"/{name}" in line)
        return list(dict.fromkeys(paths))


def profile_events(call: Callable[[], object]) -> list[Any]:
    """Return the profiler's events of one call."""
    from torch import cuda
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda.is_available() else [])]
    with profile(activities=activities, acc_events=True) as profiler:
        call()
    return list(profiler.events())


def _sum_by_name(events: list[Any]) -> tuple[tuple[str, int, float], ...]:
    counts: dict[str, int] = defaultdict(int)
    times: dict[str, float] = defaultdict(float)
    for name, _, microseconds in iter_eager_ops(events):
        counts[name] += 1
        times[name] += microseconds
    return tuple((name, counts[name], times[name]) for name in sorted(times, key=lambda name: -times[name]))


def iter_eager_ops(events: list[Any]) -> Iterator[tuple[str, float, float]]:
    """Yield the name, the start and the duration of each op outside every marked graph, in microseconds."""
    for event in events:
        op = _OP.match(event.name)
        if op and not any(map(_contains_op, _callers(event))):
            duration = event.cpu_time_total + getattr(event, "device_time_total", 0.0)
            yield ".".join(op.groups()), event.time_range.start, duration


def _callers(event: Any) -> Iterator[Any]:
    caller = event.cpu_parent
    while caller is not None:
        yield caller
        caller = caller.cpu_parent


def _contains_op(caller: Any) -> bool:
    """Return whether a caller is a graph or another op, whose nested ops are not counted."""
    return caller.name == MARK or caller.name.startswith(_BACKWARD) or bool(_OP.match(caller.name))
