"""Where the time of one warm call goes: torch's profiler, with a mark around each graph and each C++ kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import PurePath
from time import perf_counter
from typing import Any

from tcexplore.capture.dynamo.eager_ops import quiet_profiler
from tcexplore.capture.inductor.call_parts import parts_of
from tcexplore.capture.inductor.device_work import works
from tcexplore.capture.inductor.kernel_times import kernel_times, launched_as
from tcexplore.capture.inductor.profiler_tree import CALL, GRAPH, KERNEL, faster_half, seen
from tcexplore.events import CallProfiled, Kernel, KernelTimed, Wrapper

TIMES = 9
FEWEST = 3
ENOUGH_S = 2.0
"""So many calls are profiled, fewer of those that take long: none is begun after these seconds once there are a few."""


def profile_call(
    call: Callable[[], object], reset: Callable[[], None], kernels: Sequence[Kernel], wrappers: Sequence[Wrapper]
) -> Iterator[CallProfiled | KernelTimed]:
    """Profile `call()`, which is warm, a few times; times are microseconds of one call. Raises what `call` raises.

    `reset` is called after each, and does not count. `kernels` and `wrappers` are those that Inductor made for it. Only
    the faster half of the calls counts: what else the machine does can only make a call longer.

    The profiler and the marks make a call longer: a microsecond or two for each op and kernel.
    """
    found = faster_half(seen(_profiled(call, reset, wrappers)))
    work = works(found)
    names = frozenset(name for kernel in kernels for name in launched_as(kernel))
    yield parts_of(found, work, names)
    yield from kernel_times(found, work, kernels)


def _profiled(call: Callable[[], object], reset: Callable[[], None], wrappers: Sequence[Wrapper]) -> list[Any]:
    from torch import cuda
    from torch.profiler import ProfilerActivity, profile, record_function

    on_device = cuda.is_available() and cuda.is_initialized()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_device else [])]
    with quiet_profiler(), _marked(wrappers), profile(activities=activities, acc_events=True) as profiler:
        began = perf_counter()
        for number in range(1 + TIMES):
            if number > FEWEST and perf_counter() - began > ENOUGH_S:
                break
            # The first one pays for what the profiler sets up.
            with record_function(CALL if number else f"{CALL} that does not count"):
                call()
                if on_device:
                    cuda.synchronize()
            reset()
    return list(profiler.events())


@contextmanager
def _marked(wrappers: Sequence[Wrapper]) -> Iterator[None]:
    """Let each graph and each C++ kernel enter a mark of its own; Triton's are seen on the device."""
    with ExitStack() as stack:
        _mark_graphs(stack, {PurePath(one.path).stem: f"{one.graph} {one.phase}" for one in wrappers})
        _mark_kernels(stack)
        yield


def _mark_graphs(stack: ExitStack, graphs: dict[str, str]) -> None:
    """Inductor's graphs know by what key their wrapper's module was loaded, and that is its file's name."""
    from torch._inductor.output_code import CompiledFxGraph
    from torch.profiler import record_function

    call = CompiledFxGraph.__call__

    def marked(self: Any, *args: Any, **kwargs: Any) -> Any:
        graph = graphs.get(str(getattr(self, "cache_key", None)))
        if graph is None:
            return call(self, *args, **kwargs)
        with record_function(GRAPH + graph):
            return call(self, *args, **kwargs)

    stack.callback(setattr, CompiledFxGraph, "__call__", call)
    setattr(CompiledFxGraph, "__call__", marked)  # noqa: B010 - mypy has torch here and there not


def _mark_kernels(stack: ExitStack) -> None:
    from torch._inductor.codecache import PyCodeCache

    for module in PyCodeCache.modules:
        scope = vars(module)
        for name in [name for name, value in scope.items() if name.startswith("cpp_") and callable(value)]:
            stack.callback(partial(scope.__setitem__, name, scope[name]))
            scope[name] = _marking(scope[name], KERNEL + name)


def _marking(kernel: Callable[..., Any], mark: str) -> Callable[..., Any]:
    from torch.profiler import record_function

    def marked(*args: Any, **kwargs: Any) -> Any:
        with record_function(mark):
            return kernel(*args, **kwargs)

    return marked
