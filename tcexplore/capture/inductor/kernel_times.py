"""How long each kernel of a run works in one call: what the profiler saw, matched with what Inductor generated.

A generated kernel is known by its name. A library call is known by its place: between two generated kernels, or the
ends of the graph, there must be exactly one, or the ops that the host called there must be the ones that were
generated. What cannot be told apart is left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TypeVar

from tcexplore.capture.inductor.device_work import Work
from tcexplore.capture.inductor.profiler_tree import CALL, GRAPH, KERNEL, Seen
from tcexplore.events import Kernel, KernelTimed

Item = TypeVar("Item")

_FUNCTION = re.compile(r"@triton\.jit\s+def (\w+)\(")
_NOT_OURS = ("aten::_foreach_copy_", "aten::copy_", "aten::empty", "aten::as_strided")
"""What CUDA graphs and wrappers do for themselves between the kernels."""


@dataclass(slots=True)
class ProfileStep:
    """One thing that a graph ran, in its order: an op that the host called, or a piece of a CUDA graph's work."""

    name: str
    us: float
    device: str
    functions: list[str] = field(default_factory=list)
    replayed: bool = False


def launched_as(kernel: Kernel) -> frozenset[str]:
    """The names under which the launches of a generated kernel are seen; those of a library are not known."""
    if kernel.language == "extern":
        return frozenset()
    return frozenset({kernel.name, *_FUNCTION.findall(kernel.source)})


def kernel_times(found: Sequence[Seen], work: Sequence[Work], kernels: Sequence[Kernel]) -> Iterator[KernelTimed]:
    """A `KernelTimed` for each kernel that is known again, the median of the calls."""
    calls = [event for event in found if event.host and event.name == CALL]
    of_graph: dict[str, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        of_graph[f"{kernel.graph} {kernel.phase}"].append(kernel)
    taken: dict[int, dict[Seen, list[ProfileStep]]] = defaultdict(lambda: {call: [] for call in calls})
    for region in (event for event in found if event.host and event.name.startswith(GRAPH)):
        call = next((one for one in region.around() if one.name == CALL), None)
        if call is None:
            continue
        for kernel, step in _matched(_steps(region, work), of_graph[region.name.removeprefix(GRAPH)]):
            taken[id(kernel)][call].append(step)
    for kernel in kernels:
        if id(kernel) in taken:
            yield _timed(kernel, list(taken[id(kernel)].values()))


def _timed(kernel: Kernel, calls: Sequence[Sequence[ProfileStep]]) -> KernelTimed:
    steps = [step for call in calls for step in call]
    return KernelTimed(
        graph=kernel.graph,
        phase=kernel.phase,
        kernel=kernel.name,
        target=kernel.target,
        us=median(sum(step.us for step in call) for call in calls),
        count=max(1, round(len(steps) / len(calls))),
        device=steps[0].device,
        functions=tuple(dict.fromkeys(name for step in steps for name in step.functions)),
        replayed=steps[0].replayed,
    )


def _steps(region: Seen, work: Sequence[Work]) -> list[ProfileStep]:
    """What one run of a graph did; where the device worked at all, of the host only its own kernels count."""
    own = [piece for piece in work if piece.launch is not None and region in piece.launch.around()]
    host = [(child.start, ProfileStep(child.name.removeprefix(KERNEL), child.us, "cpu")) for child in _children(region)]
    if not own:
        return [step for _, step in host]
    marked = {child.start for child in _children(region) if child.name.startswith(KERNEL)}
    steps = [*_on_device(region, own), *((at, step) for at, step in host if at in marked)]
    return [step for _, step in sorted(steps, key=lambda one: one[0])]


def _on_device(region: Seen, own: Sequence[Work]) -> list[tuple[float, ProfileStep]]:
    """What each op launched, all of it together, and each piece of a CUDA graph; with the time of the launch."""
    steps: list[tuple[Seen | None, float, ProfileStep]] = []
    for piece in own:
        above, at = _below(region, piece.launch), piece.launch.start if piece.launch else piece.start
        if piece.replayed or above is None or not steps or steps[-1][0] is not above:
            name = piece.name if piece.replayed or above is None else above.name
            steps.append((above, at, ProfileStep(name, 0.0, "cuda", replayed=piece.replayed)))
        steps[-1][2].us += piece.us
        steps[-1][2].functions.append(piece.name)
    return [(at, step) for _, at, step in steps]


def _children(region: Seen) -> Iterator[Seen]:
    """What the graph called itself, below torch's own frames around its code."""
    for child in region.children:
        if child.name.startswith("## "):
            yield from _children(child)
        else:
            yield child


def _below(region: Seen, launch: Seen | None) -> Seen | None:
    """The op of the graph that a launch was made for, the launch itself where no op is around it."""
    around = list(launch.around()) if launch is not None else []
    own = around[: around.index(region)] if region in around else []
    return next((one for one in reversed(own) if not one.name.startswith("## ")), None)


Matched = tuple[Kernel, ProfileStep]


def _matched(steps: Sequence[ProfileStep], kernels: Sequence[Kernel]) -> Iterator[Matched]:
    by_name = {name: kernel for kernel in kernels for name in launched_as(kernel)}
    planned = sorted(((call.order, kernel) for kernel in kernels for call in kernel.calls), key=lambda one: one[0])
    order = [kernel for _, kernel in planned] or list(kernels)
    real = [step for step in steps if not step.name.startswith(_NOT_OURS) or step.replayed]
    generated = [(by_name[step.name], step) for step in real if step.name in by_name]
    yield from generated
    if [id(kernel) for kernel, _ in generated] != [id(kernel) for kernel in order if kernel.language != "extern"]:
        return
    seen_between = _between(real, lambda step: step.name in by_name)
    known_between = _between(order, lambda kernel: kernel.language != "extern")
    for run, externs in zip(seen_between, known_between, strict=True):
        yield from _libraries(run, externs)


def _between(items: Sequence[Item], splits: Callable[[Item], bool]) -> list[list[Item]]:
    """The runs of items before, between and after those that split them."""
    runs: list[list[Item]] = [[]]
    for item in items:
        if splits(item):
            runs.append([])
        else:
            runs[-1].append(item)
    return runs


def _libraries(steps: Sequence[ProfileStep], externs: Sequence[Kernel]) -> Iterator[Matched]:
    """The library calls between two generated kernels, as far as they can be told apart."""
    if len(externs) == 1 and steps and (len(steps) == 1 or all(step.replayed for step in steps)):
        yield externs[0], _joined(steps)
        return
    rest = iter(step for step in steps if not step.replayed)
    for kernel in externs:
        step = next((step for step in rest if _calls(kernel, step.name)), None)
        if step is None:
            return
        yield kernel, step


def _joined(steps: Sequence[ProfileStep]) -> ProfileStep:
    functions = [name for step in steps for name in step.functions]
    return replace(steps[0], us=sum(step.us for step in steps), functions=functions)


def _calls(kernel: Kernel, op: str) -> bool:
    """Whether a library call is one of `op` (`aten::addmm`); Inductor has an addmm of its own, `bias_addmm`."""
    name = op.rpartition("::")[2]
    return not {name, f"bias_{name}"}.isdisjoint(re.split(r"[.:]", kernel.name))
