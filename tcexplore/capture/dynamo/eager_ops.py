"""Ops of a profiled call outside every graph, and marks around the graphs of any backend."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles

FACT = "eager ops"
INSTALL_GRAPH = "torch._dynamo.output_graph:OutputGraph.install_global_unsafe"

MARK = "tcexplore: graph"
"""The name of the profiler range around each compiled graph."""

GRAPH_PREFIX = "__compiled_fn"
_BACKWARD = "CompiledFunctionBackward"
_OP = re.compile(r"^(?!(?:autograd|profiler|torch|tcexplore)::)(\w+)::(\w+)")


class GraphsUnknownError(RuntimeError):
    """This torch does not show which ops run in a graph."""


class _GraphGlobal(NamedTuple):
    """A compiled graph: a global that Dynamo's bytecode calls."""

    scope: dict[str, Any]
    name: str


_graphs: list[_GraphGlobal] | None = None
"""The compiled graphs of this process, None until `install`."""


def install(hooks: Hooks, _trace: StructuredTrace, _user_files: UserFiles) -> None:
    """Record the compiled graphs for `marked_graphs`."""
    global _graphs
    if hooks.watch(FACT, INSTALL_GRAPH, after=_graph_installed):
        _graphs = _graphs or []


def _graph_installed(_result: Any, output_graph: Any, name: str, _value: Any) -> None:
    if name.startswith(GRAPH_PREFIX) and _graphs is not None:
        _graphs.append(_GraphGlobal(output_graph.global_scope, name))


@contextmanager
def marked_graphs() -> Iterator[None]:
    """Mark each graph that still exists in the profile, of any backend.

    torch's "Torch-Compiled Region" does not help: it contains everything that the compiled frame runs, including ops
    between two graphs. Raises `GraphsUnknownError`.
    """
    if _graphs is None:
        raise GraphsUnknownError(f"this torch has no {INSTALL_GRAPH}")
    originals = {graph.name: (graph.scope, graph.scope[graph.name]) for graph in _graphs if graph.name in graph.scope}
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
