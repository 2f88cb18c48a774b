"""Profile of a warm call: torch's profiler, with a mark around each graph and each C++ kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import PurePath
from time import perf_counter
from typing import Any

import torch

from tcexplore.capture.dynamo.eager_ops import quiet_profiler
from tcexplore.capture.inductor.call_parts import call_parts
from tcexplore.capture.inductor.kernel_times import kernel_times, launch_names
from tcexplore.capture.inductor.profiler_tree import CALL, GRAPH, KERNEL, device_work, faster_half, profiler_tree
from tcexplore.events import CallProfiled, Kernel, KernelTimed, Wrapper

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
