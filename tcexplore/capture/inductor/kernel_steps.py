"""Profiled work, matched with the kernels that Inductor generated.

A generated kernel is recognized by its name. A library call is recognized by its position: between two generated
kernels, or the ends of the graph, there must be exactly one, or its ops must be those that Inductor planned. Ambiguous
work is left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from tcexplore.capture.inductor.profiler_tree import CALL, GRAPH, KERNEL, DeviceWork, ProfilerEvent
from tcexplore.events import Kernel

Item = TypeVar("Item")

_TRITON_FUNCTION = re.compile(r"@triton\.jit\s+def (\w+)\(")
_UNPLANNED_OPS = ("aten::_foreach_copy_", "aten::copy_", "aten::empty", "aten::as_strided")
"""Ops that CUDA graphs and wrappers call between the kernels."""


@dataclass(slots=True)
class ProfileStep:
    """One step of a graph's run: an op that the host called, or one task of a CUDA graph."""

    name: str
    host: ProfilerEvent | None = None
    """The op; None for work of the device."""
    work: list[DeviceWork] = field(default_factory=list)
    """What the op launched."""
    replayed: bool = False


def launch_names(kernel: Kernel) -> frozenset[str]:
    """Return the names under which a generated kernel is launched, none for a library call."""
    if kernel.language == "extern":
        return frozenset()
    return frozenset({kernel.name, *_TRITON_FUNCTION.findall(kernel.source)})


class KernelStep(NamedTuple):
    """A step of a graph's run that is a call of a kernel."""

    kernel: Kernel
    step: ProfileStep


def kernel_steps(
    events: Sequence[ProfilerEvent], work: Sequence[DeviceWork], kernels: Sequence[Kernel]
) -> dict[ProfilerEvent | DeviceWork, KernelStep]:
    """Return the step of each op of the host, and of each task of the device, that is recognized in the profile."""
    by_graph: dict[str, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        by_graph[f"{kernel.graph} {kernel.phase}"].append(kernel)
    found: dict[ProfilerEvent | DeviceWork, KernelStep] = {}
    for run in (event for event in events if event.host and event.name.startswith(GRAPH)):
        if any(event.name == CALL for event in run.with_ancestors()):
            for matched in _matched(_steps(run, work), by_graph[run.name.removeprefix(GRAPH)]):
                step = matched.step
                found.update(dict.fromkeys([step.host] if step.host is not None else step.work, matched))
    return found


def _steps(run: ProfilerEvent, work: Sequence[DeviceWork]) -> list[ProfileStep]:
    """Return the steps of one run of a graph.

    If the device worked in it, the only host ops that count are generated C++ kernels.
    """
    launched = [piece for piece in work if piece.launch is not None and run in piece.launch.with_ancestors()]
    host = [(child.start, ProfileStep(child.name.removeprefix(KERNEL), child)) for child in _children(run)]
    if not launched:
        return [step for _, step in host]
    kernel_starts = {child.start for child in _children(run) if child.name.startswith(KERNEL)}
    steps = [*_device_steps(run, launched), *((start, step) for start, step in host if start in kernel_starts)]
    return [step for _, step in sorted(steps, key=lambda timed: timed[0])]


def _device_steps(run: ProfilerEvent, launched: Sequence[DeviceWork]) -> list[tuple[float, ProfileStep]]:
    """Return a step and its launch time for each op, with all that it launched, and for each task of a CUDA graph."""
    steps: list[tuple[ProfilerEvent | None, float, ProfileStep]] = []
    for piece in launched:
        op, start = _op_of_launch(run, piece.launch), piece.launch.start if piece.launch else piece.start
        if piece.replayed or op is None or not steps or steps[-1][0] is not op:
            name = piece.name if piece.replayed or op is None else op.name
            steps.append((op, start, ProfileStep(name, replayed=piece.replayed)))
        steps[-1][2].work.append(piece)
    return [(start, step) for _, start, step in steps]


def _children(run: ProfilerEvent) -> Iterator[ProfilerEvent]:
    """Yield the ops that the graph called directly, below torch's own frames around its code."""
    for child in run.children:
        if child.name.startswith("## "):
            yield from _children(child)
        else:
            yield child


def _op_of_launch(run: ProfilerEvent, launch: ProfilerEvent | None) -> ProfilerEvent | None:
    """Return the graph's outermost op around a launch, or the launch itself outside of an op."""
    ancestors = list(launch.with_ancestors()) if launch is not None else []
    inside = ancestors[: ancestors.index(run)] if run in ancestors else []
    return next((event for event in reversed(inside) if not event.name.startswith("## ")), None)


def _matched(steps: Sequence[ProfileStep], kernels: Sequence[Kernel]) -> Iterator[KernelStep]:
    by_name = {name: kernel for kernel in kernels for name in launch_names(kernel)}
    planned = sorted(((call.order, kernel) for kernel in kernels for call in kernel.calls), key=lambda pair: pair[0])
    order = [kernel for _, kernel in planned] or list(kernels)
    used = [step for step in steps if not step.name.startswith(_UNPLANNED_OPS) or step.replayed]
    generated = [KernelStep(by_name[step.name], step) for step in used if step.name in by_name]
    yield from generated
    if [id(kernel) for kernel, _ in generated] != [id(kernel) for kernel in order if kernel.language != "extern"]:
        return
    steps_between = _between(used, lambda step: step.name in by_name)
    externs_between = _between(order, lambda kernel: kernel.language != "extern")
    for library_steps, externs in zip(steps_between, externs_between, strict=True):
        yield from _library_calls(library_steps, externs)


def _between(items: Sequence[Item], is_separator: Callable[[Item], bool]) -> list[list[Item]]:
    """Return the sequences of items before, between and after the separators."""
    parts: list[list[Item]] = [[]]
    for item in items:
        if is_separator(item):
            parts.append([])
        else:
            parts[-1].append(item)
    return parts


def _library_calls(steps: Sequence[ProfileStep], externs: Sequence[Kernel]) -> Iterator[KernelStep]:
    """Match the unambiguous library calls between two generated kernels."""
    if len(externs) == 1 and steps and (len(steps) == 1 or all(step.replayed for step in steps)):
        yield KernelStep(externs[0], _joined(steps))
        return
    remaining = iter(step for step in steps if not step.replayed)
    for kernel in externs:
        step = next((step for step in remaining if _calls(kernel, step.name)), None)
        if step is None:
            return
        yield KernelStep(kernel, step)


def _joined(steps: Sequence[ProfileStep]) -> ProfileStep:
    return replace(steps[0], work=[piece for step in steps for piece in step.work])


def _calls(kernel: Kernel, op: str) -> bool:
    """Return whether an extern kernel calls `op` (`aten::addmm`); Inductor has its own addmm, `bias_addmm`."""
    name = op.rpartition("::")[2]
    return not {name, f"bias_{name}"}.isdisjoint(re.split(r"[.:]", kernel.name))
