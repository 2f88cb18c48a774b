"""Where the time of one warm call goes, from torch's profiler and a mark around each generated C++ kernel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from tcexplore.capture.dynamo.outside import quiet_profiler
from tcexplore.events import CallPart, CallProfiled

CALL = "tcexplore: call"
KERNEL = "tcexplore: kernel "
TIMES = 5

OWN = (
    (CALL, "python"),
    ("TorchDynamo Cache Lookup", "guards"),
    ("Torch-Compiled Region", "dispatch"),
    ("Pregraph bytecode", "dispatch"),
    ("AOTDispatcher Runtime Wrapper Prologue", "prologue"),
    ("AOTDispatcher Runtime Wrapper Epilogue", "epilogue"),
    ("## Call CompiledFxGraph", "wrapper"),
    ("CompiledFunctionBackward", "wrapper"),
    ("CompiledFunction", "dispatch"),
)
"""What begins with this name stands for this part with the time that nothing inside it takes."""

GRAPHS = ("## Call CompiledFxGraph", "CompiledFunctionBackward")
"""Ops inside these are called by generated code."""


def profile_call(call: Callable[[], object], reset: Callable[[], None]) -> CallProfiled:
    """Profile `call()`, which is warm, `TIMES` times; times are microseconds of one call. Raises what `call` raises.

    `reset` is called after each, and does not count.

    The profiler and the marks make a call longer: a microsecond or two for each op and kernel.
    """
    from torch import cuda
    from torch.profiler import ProfilerActivity, profile, record_function

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda.is_available() else [])]
    with quiet_profiler(), _kernels_marked(), profile(activities=activities, acc_events=True) as profiler:
        for _ in range(TIMES):
            with record_function(CALL):
                call()
                if cuda.is_initialized():
                    cuda.synchronize()
            reset()
    return _summed(list(profiler.events()))


def _summed(events: list[Any]) -> CallProfiled:
    parts: dict[tuple[str, str], list[float]] = defaultdict(list)
    calls = [event for event in events if event.name == CALL and event.cpu_parent is None and _on_cpu(event)]
    for event in calls:
        for kind, name, microseconds in _parts(event, "python", in_graph=False):
            parts[kind, name].append(microseconds)
    for event in events:
        if not _on_cpu(event) and event.name != CALL:
            parts["device", event.name].append(event.device_time_total)
    made = [
        CallPart(kind=kind, name=name, count=round(len(times) / TIMES) if name else 1, us=sum(times) / TIMES)
        for (kind, name), times in parts.items()
    ]
    total = sum(event.cpu_time_total for event in calls) / TIMES
    return CallProfiled(total_us=total, times=TIMES, parts=tuple(sorted(made, key=lambda part: -part.us)))


def _parts(event: Any, around: str, *, in_graph: bool) -> Iterator[tuple[str, str, float]]:
    """What an event and those inside it stand for: kind, name and microseconds, which add up to its own time."""
    if event.name.startswith(KERNEL):
        yield "kernel", event.name.removeprefix(KERNEL), event.cpu_time_total
        return
    kind = next((kind for name, kind in OWN if event.name.startswith(name)), None)
    if kind is None and "::" in event.name and not event.name.startswith(("autograd::", "torch::")):
        yield "extern" if in_graph else "outside", event.name.replace("::", "."), event.cpu_time_total
        return
    kind = kind or around
    inside = in_graph or event.name.startswith(GRAPHS)
    children = list(event.cpu_children)
    yield kind, "", max(0.0, event.cpu_time_total - sum(child.cpu_time_total for child in children))
    for child in children:
        yield from _parts(child, kind, in_graph=inside)


def _on_cpu(event: Any) -> bool:
    return str(event.device_type).endswith("CPU")


@contextmanager
def _kernels_marked() -> Iterator[None]:
    """Let each C++ kernel of the generated modules enter a mark of its own; Triton's are seen on the device."""
    from torch._inductor.codecache import PyCodeCache

    with ExitStack() as stack:
        for module in PyCodeCache.modules:
            scope = vars(module)
            for name in [name for name, value in scope.items() if name.startswith("cpp_") and callable(value)]:
                stack.callback(partial(scope.__setitem__, name, scope[name]))
                scope[name] = _marking(scope[name], KERNEL + name)
        yield


def _marking(kernel: Callable[..., Any], mark: str) -> Callable[..., Any]:
    from torch.profiler import record_function

    def marked(*args: Any, **kwargs: Any) -> Any:
        with record_function(mark):
            return kernel(*args, **kwargs)

    return marked
