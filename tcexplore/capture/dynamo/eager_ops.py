"""Ops of a profiled call outside every graph, and marks around the graphs of any backend."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles

FACT = "eager ops"
INSTALL_GRAPH = "torch._dynamo.output_graph:OutputGraph.install_global_unsafe"

MARK = "tcexplore: graph"
"""The name of the profiler range around each compiled graph."""

MARKED = "marked"
"""The name of the functions around marked graphs and kernels."""

GRAPH_PREFIX = "__compiled_fn"
_BACKWARD = "CompiledFunctionBackward"
_OF_AUTOGRAD = ("CompiledFunction", _BACKWARD, "torch::autograd::AccumulateGrad")
_OP = re.compile(r"^(?!(?:autograd|profiler|torch|tcexplore)::)(\w+)::(\w+)")


def is_of_autograd(op: str, caller: str) -> bool:
    """Return whether torch itself detaches a tensor: each parameter of a graph that is trained, or its gradient."""
    return op == "aten::detach" and caller in _OF_AUTOGRAD


class GraphsUnknownError(RuntimeError):
    """This torch does not show which ops run in a graph."""


Function = Callable[..., Any]

_graphs: dict[str, dict[str, Any]] | None = None
"""The globals with each compiled graph, which Dynamo's bytecode calls by its name; None until `install`."""


def install(hooks: Hooks, _trace: StructuredTrace, _user_files: UserFiles) -> None:
    """Record the compiled graphs for `marked_graphs`."""
    global _graphs
    if hooks.watch(FACT, INSTALL_GRAPH, after=_graph_installed):
        _graphs = _graphs or {}


def _graph_installed(_result: Any, output_graph: Any, name: str, _value: Any) -> None:
    if name.startswith(GRAPH_PREFIX) and _graphs is not None:
        _graphs[name] = output_graph.global_scope


@contextmanager
def marked_graphs() -> Iterator[None]:
    """Mark each graph that still exists in the profile, of any backend.

    torch's "Torch-Compiled Region" does not help: it contains everything that the compiled frame runs, including ops
    between two graphs. Raises `GraphsUnknownError`.
    """
    if _graphs is None:
        raise GraphsUnknownError(f"this torch has no {INSTALL_GRAPH}")
    from torch.profiler import record_function

    def mark(_: str, graph: Function) -> Function:
        def marked(*args: Any, **kwargs: Any) -> Any:
            with record_function(MARK):
                return graph(*args, **kwargs)

        return marked

    with replaced_graphs(_graphs, mark):
        yield


@contextmanager
def replaced_graphs(graphs: Mapping[str, dict[str, Any]], wrap: Callable[[str, Function], Function]) -> Iterator[None]:
    """Replace each graph that still exists by a wrapper that Dynamo does not trace.

    `graphs` are the globals with each graph, by its name; `wrap` gets the name and the graph.
    """
    originals = {name: scope[name] for name, scope in graphs.items() if name in scope}
    try:
        for name, original in originals.items():
            graphs[name][name] = hide_from_dynamo(wrap(name, original))
        yield
    finally:
        for name, original in originals.items():
            graphs[name][name] = original


def hide_from_dynamo(function: Function) -> Function:
    """Return the function in a form that Dynamo does not trace.

    If this torch can skip a code object, calls cost nothing extra; otherwise a wrapper disables Dynamo.
    """
    import torch

    skip = getattr(torch._C._dynamo.eval_frame, "skip_code", None)
    if skip is None:
        wrapped: Function = torch.compiler.disable(function)
        return wrapped
    skip(function.__code__)
    return function


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
        of_torch = event.cpu_parent is not None and is_of_autograd(event.name, event.cpu_parent.name)
        if op and not of_torch and not any(map(_contains_op, _callers(event))):
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
