"""Ops that a call of the compiled program runs outside every graph, found by profiling one call."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import EagerOps

FACT = "ops outside the graphs"
SYMBOL = "torch._dynamo.output_graph:OutputGraph.install_global_unsafe"

_GRAPH = "__compiled_fn"
MARK = "tcexplore: graph"
_REGION = "Torch-Compiled Region"
_BACKWARD = "CompiledFunctionBackward"
_OP = re.compile(r"^(?!(?:autograd|profiler|torch|tcexplore)::)(\w+)::(\w+)")


class EagerOpsUnknownError(RuntimeError):
    """This torch does not let one tell what runs in a graph from what does not."""


class _Callable(NamedTuple):
    scope: dict[str, Any]
    name: str


_graphs: list[_Callable] | None = None
"""The compiled graphs of this process: globals that Dynamo's bytecode calls. None until they are watched."""


def install(hooks: Hooks, _trace: StructuredTrace, _project: UserFiles) -> None:
    """Keep track of the graphs, so that `measure` knows them."""
    global _graphs
    if hooks.watch(FACT, SYMBOL, after=_installed):
        _graphs = _graphs or []


def measure(call: Callable[[], object]) -> EagerOps:
    """Profile `call()`, which is warm, and list the ops outside every graph, the longest first.

    torch's "Torch-Compiled Region" is of no use for this: it holds whatever the compiled frame runs, also between
    two graphs. So each graph is marked for this one call. Only ops that no other op called are counted; times are
    in microseconds. Raises `EagerOpsUnknownError` where this torch gives no way to know, and what `call` raises.
    """
    if _graphs is None:
        raise EagerOpsUnknownError(f"this torch has no {SYMBOL}")
    with quiet_profiler(), _marked(_graphs):
        events = profiled(call)
    regions = sum(event.name.startswith(_REGION) for event in events)
    if not regions and any(event.name == MARK for event in events):
        raise EagerOpsUnknownError(f"this torch's profiler shows no {_REGION!r}")
    return EagerOps(ops=_outside(events), regions=regions)


def _installed(_result: Any, output_graph: Any, name: str, _value: Any) -> None:
    if name.startswith(_GRAPH) and _graphs is not None:
        _graphs.append(_Callable(output_graph.global_scope, name))


@contextmanager
def _marked(graphs: list[_Callable]) -> Iterator[None]:
    """Let each graph that still exists enter a mark of its own in the profile."""
    originals = {graph.name: (graph.scope, graph.scope[graph.name]) for graph in graphs if graph.name in graph.scope}
    try:
        for name, (scope, original) in originals.items():
            scope[name] = _marking(original)
        yield
    finally:
        for name, (scope, original) in originals.items():
            scope[name] = original


def _marking(graph: Callable[..., Any]) -> Callable[..., Any]:
    from torch.compiler import disable
    from torch.profiler import record_function

    @wraps(graph, updated=())
    def marked(*args: Any, **kwargs: Any) -> Any:
        with record_function(MARK):
            return graph(*args, **kwargs)

    undisturbed: Callable[..., Any] = disable(marked)
    return undisturbed


@contextmanager
def quiet_profiler() -> Iterator[None]:
    """The profiler's library logs to the user's stderr when it first starts, unless it is told not to."""
    name = "KINETO_LOG_LEVEL"
    before = os.environ.get(name)
    os.environ[name] = before or "99"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]


def profiled(call: Callable[[], object]) -> list[Any]:
    """The events of one call."""
    from torch import cuda
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda.is_available() else [])]
    with profile(activities=activities, acc_events=True) as profiler:
        call()
    return list(profiler.events())


def _outside(events: list[Any]) -> tuple[tuple[str, int, float], ...]:
    counts: dict[str, int] = defaultdict(int)
    times: dict[str, float] = defaultdict(float)
    for name, _, microseconds in outside_ops(events):
        counts[name] += 1
        times[name] += microseconds
    return tuple((name, counts[name], times[name]) for name in sorted(times, key=lambda name: -times[name]))


def outside_ops(events: list[Any]) -> Iterator[tuple[str, float, float]]:
    """The ops outside every marked graph: name, when it began and how long it took, in microseconds."""
    for event in events:
        found = _OP.match(event.name)
        if found and not any(map(_covers, _callers(event))):
            took = event.cpu_time_total + getattr(event, "device_time_total", 0.0)
            yield ".".join(found.groups()), event.time_range.start, took


def _callers(event: Any) -> Iterator[Any]:
    caller = event.cpu_parent
    while caller is not None:
        yield caller
        caller = caller.cpu_parent


def _covers(caller: Any) -> bool:
    """Whether what this event called needs no mention: it is in a graph, or part of another op."""
    return caller.name == MARK or caller.name.startswith(_BACKWARD) or bool(_OP.match(caller.name))
