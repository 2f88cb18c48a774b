"""Profile of a warm call: torch's profiler, with marks around graphs and C++ kernels, and the parts of its time.

This is the one measurement of the time within a compiled call. Every view of kernels, lines, guards and eager ops reads
it, scaled to the call of the timing (`session/call_account.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import PurePath
from time import perf_counter
from typing import Any

import torch

from tcexplore.capture.dynamo.eager_ops import marked_graphs, quiet_profiler
from tcexplore.capture.eager_places import eager_op_places, with_places
from tcexplore.capture.inductor.call_parts import MARKS, GraphTasks, Round, call_parts, graph_tasks
from tcexplore.capture.inductor.cuda_graphs import without_replay
from tcexplore.capture.inductor.profiler_tree import (
    CALIBRATION,
    CALL,
    GRAPH,
    KERNEL,
    ProfilerEvent,
    busy_us,
    device_work,
    faster_half,
    graph_of_mark,
    host_tree,
    profiler_tree,
)
from tcexplore.capture.module_paths import RunModule, running_module
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import CallProfiled, GraphCaller, Kernel, Wrapper

CALLS = 9
"""Profiled calls on a device."""

ROUNDS, ROUND_CALLS, PLAIN_CALLS = 4, 4, 3
"""Rounds on a CPU, profiled calls of each, and calls without the profiler before and after them."""

CALIBRATIONS = 2
"""Measurements of the profiler's cost in each profile; the least of all counts. The first meets cold caches."""

MIN_CALLS = 2
MAX_SECONDS = 2.0
"""After `MAX_SECONDS` and `MIN_CALLS` no further profiled call begins."""

Call = Callable[[], object]


def profile_call(
    call: Call, reset: Callable[[], None], kernels: Sequence[Kernel], wrappers: Sequence[Wrapper],
    timed_us: float | None = None, *, tasks: GraphTasks | None = None, on_device: bool = False,
) -> CallProfiled:  # fmt: skip
    """Profile a warm `call()` several times and return the parts of its time, in microseconds.

    `reset` runs after each call and is not profiled. `kernels` and `wrappers` are Inductor's for this call. Calls that
    took about the `timed_us` of the timing count. On a CPU, calls without the profiler in between show what it costs.
    `tasks` are those of the graphs without CUDA graphs (`profile_without_replay`). Exceptions of `call` propagate.
    """
    if on_device:
        with _marks(wrappers):
            events = run_profiled(call, reset)
        return call_parts([Round(events)], kernels, tasks=tasks)
    rounds: list[Round] = []
    began, ops_us = perf_counter(), _cheap_ops_us()
    while not rounds or (len(rounds) < ROUNDS and perf_counter() - began < MAX_SECONDS):
        plain = _plain(call, reset)
        with _marks(wrappers):
            events = run_profiled(call, reset, ROUND_CALLS)
        rounds.append(Round(events, [*plain, *_plain(call, reset)], ops_us))
    return call_parts(rounds, kernels, timed_us)


def profile_without_replay(
    call: Call, reset: Callable[[], None], kernels: Sequence[Kernel], wrappers: Sequence[Wrapper]
) -> GraphTasks:
    """Return the tasks that the graphs start in a `call()` that replays no CUDA graph. Exceptions propagate."""
    with without_replay(), _marks(wrappers):
        return graph_tasks(run_profiled(call, reset, 1), kernels)


def graph_callers(call: Call, reset: Callable[[], None], wrappers: Sequence[Wrapper]) -> tuple[GraphCaller, ...]:
    """Return the modules that call each graph in one `call()`. Exceptions of `call` propagate."""
    counts: Counter[tuple[str, RunModule]] = Counter()
    if not wrappers:
        return ()

    @contextmanager
    def count(name: str) -> Iterator[None]:
        graph, phase = graph_of_mark(name)[0].split(" ")
        if phase == "forward" and (caller := running_module()) is not None:
            counts[graph, caller] += 1
        yield

    with ExitStack() as stack:
        _mark_graphs(stack, _GraphNames(wrappers), count)
        call()
    reset()
    return tuple(GraphCaller(graph, *caller.place, calls) for (graph, caller), calls in counts.items())


def place_eager_ops(
    profile: CallProfiled, call: Call, reset: Callable[[], None], wrappers: Sequence[Wrapper], user_files: UserFiles
) -> CallProfiled:
    """Return the profile of a `call()` with modules and lines of its eager ops. Exceptions of `call` propagate."""
    with _marks(wrappers):
        return with_places(profile, eager_op_places(call, reset, user_files))


def _plain(call: Call, reset: Callable[[], None]) -> list[float]:
    """Return the times of calls without the profiler; the first of several, with cold caches, does not count."""
    times: list[float] = []
    began = perf_counter()
    while not times or (len(times) <= PLAIN_CALLS and perf_counter() - began < MAX_SECONDS / (2 * ROUNDS)):
        start = perf_counter()
        call()
        times.append((perf_counter() - start) * 1e6)
        reset()
    return times[1:] or times


def measure_device_busy(call: Call, reset: Callable[[], None]) -> float:
    """Return the microseconds in which the device works in one `call()`, from a profile of several."""
    one = Round(run_profiled(call, reset))
    used = faster_half(one.calls)
    return busy_us([piece for piece in device_work(one.events) if piece.call in used]) / len(used)


def run_profiled(call: Call, reset: Callable[[], None], calls: int = CALLS) -> list[ProfilerEvent]:
    """Return the profile of up to `calls` marked calls as a tree."""
    from torch import autograd, cuda
    from torch.profiler import ProfilerActivity, profile, record_function

    on_device = cuda.is_available() and cuda.is_initialized()
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    profiler: Any = profile(activities=activities, acc_events=True) if on_device else autograd.profiler.profile()
    with quiet_profiler(), profiler:
        _calibrate()
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
    if on_device:
        return profiler_tree(profiler.events())
    try:
        return host_tree(profiler.kineto_results.events(), profiler.kineto_results.trace_start_ns())
    except (AttributeError, TypeError):  # private to torch
        return profiler_tree(profiler.function_events)


def _calibrate() -> None:
    """Add cheap ops and empty ranges to the profile, from which its cost of an event is known."""
    for _ in range(CALIBRATIONS):
        with mark(CALIBRATION + "ops"):
            _call_cheap_ops()
        with mark(CALIBRATION + "ranges"):
            for _ in range(MARKS):
                with torch.profiler.record_function(CALIBRATION + "range"):
                    pass


def _call_cheap_ops() -> None:
    tensor = torch.empty((1, 1), device="cpu")
    for _ in range(MARKS):
        tensor.t()


def _cheap_ops_us() -> float:
    """Return the least time of the ops without the profiler."""
    times = []
    for _ in range(CALIBRATIONS * ROUNDS):
        start = perf_counter()
        _call_cheap_ops()
        times.append((perf_counter() - start) * 1e6)
    return min(times)


def mark(name: str) -> AbstractContextManager[object]:
    """Return a context that is an event in the profile. torch's private class takes 0.1 µs, the public one 3 µs."""
    fast = getattr(getattr(torch._C, "_profiler", None), "_RecordFunctionFast", torch.profiler.record_function)
    context: AbstractContextManager[object] = fast(name)
    return context


@contextmanager
def _marks(wrappers: Sequence[Wrapper]) -> Iterator[None]:
    """Mark each graph and each kernel of the host in the profile; Triton kernels have their own device events.

    Graphs of another backend than Inductor are marked in the bytecode that calls them.
    """
    with ExitStack() as stack:
        if not wrappers:
            stack.enter_context(marked_graphs())
        _mark_graphs(stack, _GraphNames(wrappers), mark)
        _mark_kernels(stack)
        _record_python_ops(stack, wrappers)
        yield


class _GraphNames:
    """The graphs of wrappers, by the cache key of their code, which is also the name of the wrapper's file.

    A graph that was compiled again after the observed calls may have the same code: only its number differs.
    """

    def __init__(self, wrappers: Sequence[Wrapper]) -> None:
        self._names: dict[str, str] = {}
        self._wrappers = wrappers
        counts: Counter[str] = Counter()
        for wrapper in wrappers:
            graph = f"{wrapper.graph} {wrapper.phase}"
            self._names[PurePath(wrapper.path).stem] = f"{graph} #{counts[graph]}" if counts[graph] else graph
            counts[graph] += 1

    def name(self, key: str) -> str:
        """Return the name of a graph, further parts of one with a number; empty for unknown code."""
        if key not in self._names:
            self._names[key] = self._name_by_code(key)
        return self._names[key]

    def _name_by_code(self, key: str) -> str:
        from torch._inductor.codecache import get_path

        try:
            with open(get_path(key, "py")[2], encoding="utf-8") as file:
                code = _without_numbers(file.read())
        except OSError:
            return ""
        same = [wrapper for wrapper in self._wrappers if _without_numbers(wrapper.source) == code]
        return self._names[PurePath(same[0].path).stem] if len(same) == 1 else ""


def _without_numbers(source: str) -> str:
    """Return the code of a wrapper without the numbers of graph and kernels.

    They are in its first line, `# AOT ID: ['0_inference']`, and in `# [Provenance debug handles] cpp_fused_relu_0:7`.
    """
    return _HANDLE.sub("", source.partition("\n")[2]).strip()


_HANDLE = re.compile(r"# \[Provenance debug handles\] .*")


def _mark_graphs(stack: ExitStack, graphs: _GraphNames, mark: Callable[[str], AbstractContextManager[object]]) -> None:
    """Mark the graphs that have a name."""
    from torch._inductor.output_code import CompiledFxGraph

    call = CompiledFxGraph.__call__

    def marked(self: Any, *args: Any, **kwargs: Any) -> Any:
        graph = graphs.name(str(getattr(self, "cache_key", "")))
        if not graph:
            return call(self, *args, **kwargs)
        with mark(GRAPH + graph):
            return call(self, *args, **kwargs)

    stack.callback(setattr, CompiledFxGraph, "__call__", call)
    setattr(CompiledFxGraph, "__call__", marked)  # noqa: B010 - mypy rejects the assignment where torch is installed


def _mark_kernels(stack: ExitStack) -> None:
    """Mark the kernels that run on the host: functions of C++ and Halide, and objects that run a kernel of a DSL."""
    from torch._inductor.codecache import PyCodeCache

    for module in PyCodeCache.modules:
        scope = vars(module)
        for name, value in list(scope.items()):
            if name.startswith(("cpp_", "halide_")) and callable(value):
                stack.callback(partial(scope.__setitem__, name, value))
                scope[name] = _marked(value, KERNEL + name)
            elif type(value).__name__.endswith("KernelWrapper") and "run" not in vars(value):
                stack.callback(partial(delattr, value, "run"))
                value.run = _marked(value.run, KERNEL + name)


def _record_python_ops(stack: ExitStack, wrappers: Sequence[Wrapper]) -> None:
    """Have the profiler record custom ops: torch 2.14 calls their Python code past the dispatcher, which does that."""
    called = {name for wrapper in wrappers for name in _CALLED_OP.findall(wrapper.source)}
    for names in called:
        op: Any = torch.ops
        for name in names:
            op = getattr(op, name, None)
        if getattr(op, "_pyobj_dispatcher", None) is not None:
            op._enable_pyobj_dispatch(False)
            stack.callback(op._enable_pyobj_dispatch, True)


_CALLED_OP = re.compile(r"\btorch\.ops\.(?!aten\b)(\w+)\.(\w+)\.(\w+)\(")


def _marked(kernel: Callable[..., Any], name: str) -> Callable[..., Any]:
    def marked(*args: Any, **kwargs: Any) -> Any:
        with mark(name):
            return kernel(*args, **kwargs)

    return marked
