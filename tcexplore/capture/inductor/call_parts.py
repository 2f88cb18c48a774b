"""The parts of a call, from the profiler's events, and profiled work matched with the kernels that Inductor generated.

A generated kernel is recognized by its name. A library call is recognized by its position: between two generated
kernels, or the ends of the graph, there must be exactly one, or its ops must be those that Inductor planned. In a
replayed CUDA graph, the device's tasks are those of the same code without a CUDA graph, in the same order. Ambiguous
work is left out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import chain
from statistics import fmean, median
from typing import Literal, NamedTuple, TypeVar

from tcexplore.capture.dynamo.eager_ops import MARK, is_of_autograd
from tcexplore.capture.inductor.profiler_tree import (
    CALIBRATION,
    CALL,
    GRAPH,
    KERNEL,
    DeviceWork,
    ProfilerEvent,
    busy_us,
    calls_near,
    device_work,
    faster_half,
    gaps_us,
    graph_of_mark,
)
from tcexplore.events import CallPart, CallProfiled, Kernel, PartKind
from tcexplore.events.dynamo_events import subgraph_of
from tcexplore.torch_text.repeated_subgraphs import order_of_run

MARKS = 50
"""Cheap ops and empty ranges from which the profiler's cost of an event is known."""

Named = tuple[PartKind, str]

WRAPPER: Named = ("launch", "wrapper")

PARTS: tuple[tuple[str, Named], ...] = (
    (CALL, ("Python", "")),
    (GRAPH, WRAPPER),
    (MARK, ("launch", "graph")),
    ("TorchDynamo Cache Lookup", ("guards", "")),
    ("Torch-Compiled Region", ("launch", "bytecode")),
    ("Pregraph bytecode", ("launch", "bytecode")),
    ("AOTDispatcher Runtime Wrapper Prologue", ("launch", "AOT prologue")),
    ("AOTDispatcher Runtime Wrapper Epilogue", ("launch", "AOT epilogue")),
    ("## Call CompiledFxGraph", WRAPPER),
    ("CompiledFunctionBackward", WRAPPER),
    ("CompiledFunction", ("launch", "bytecode")),
)
"""Prefixes of event names, and the part that an event's self time belongs to."""

HOST_KINDS = ("launch", "Python")
"""Parts of the host that do no work of the program."""

GRAPHS = ("## Call CompiledFxGraph", "CompiledFunctionBackward", MARK)
"""Prefixes of events whose ops are called by generated code."""

UNKNOWN_GRAPH = " "

PROFILER = "Activity Buffer Request"
"""The profiler's own work, which is not part of a call."""

REGION = "Torch-Compiled Region"

INPUTS_COPIED = "inputs copied to where the CUDA graph reads them"

Device = Literal["cpu", "cuda"]


class Round(NamedTuple):
    """One use of the profiler."""

    events: Sequence[ProfilerEvent]
    plain_us: Sequence[float] = ()
    """Calls without the profiler, before and after it."""
    plain_ops_us: float = 0.0
    """The cheap ops of the calibration without the profiler."""

    @property
    def calls(self) -> list[ProfilerEvent]:
        return [event for event in self.events if event.host and event.name == CALL]


class PartKey(NamedTuple):
    """What the events of one part have in common."""

    kind: PartKind
    name: str
    graph: str = ""
    """`0/0 forward`, or `UNKNOWN_GRAPH`; empty outside a graph."""
    device: Device = "cpu"


@dataclass(slots=True)
class PartTimes:
    """One part of one call."""

    us: float = 0.0
    launch_us: float = 0.0
    """Of a kernel: the time before its launches, a share of another part."""
    launches: int = 0
    functions: dict[str, None] = field(default_factory=dict)
    replayed: bool = False


Parts = dict[PartKey, PartTimes]


def call_parts(
    rounds: Sequence[Round], kernels: Sequence[Kernel], timed_us: float | None = None, tasks: GraphTasks | None = None
) -> CallProfiled:
    """Return the parts of a call, from the profiled calls that count, in microseconds.

    `tasks` are those of a call that replays no CUDA graph, by which the library calls in replays are known.

    On a CPU, these are the ones that took about as long as the call of the timing, `timed_us`, and a part is its
    median: a busy machine stops a call for milliseconds, and in a mean, one stop makes a short part a long one. If the
    calls differ much, a part is its least time in any call. On a device, the faster half of the calls counts, because
    other load on the machine only ever slows a call down.
    """
    work = [piece for one in rounds for piece in device_work(one.events)]
    return _on_device(rounds, kernels, work, tasks or {}) if work else _on_host(rounds, kernels, timed_us)


def _on_host(rounds: Sequence[Round], kernels: Sequence[Kernel], timed_us: float | None) -> CallProfiled:
    overhead = _overhead(rounds)
    split = _Split(rounds, kernels, (), overhead, {})
    parts = {call: split.on_host(call) for one in rounds for call in one.calls}
    plain = [us for one in rounds for us in one.plain_us]
    excess = max(0.0, median(map(_total, parts.values())) - median(plain)) if plain else 0.0
    for call, times in parts.items():
        _shorten_host(times, min(excess, overhead.range_us * sum(map(_is_range, _all_below(call)))))
    totals = {call: _total(times) for call, times in parts.items()}
    steady = _is_steady(totals.values())
    used = calls_near(totals, timed_us or median(plain or totals.values())) if steady else list(totals)
    whole = fmean(totals[call] for call in used) if steady else median(totals.values())
    own = [parts[call] for call in used]
    return CallProfiled(
        total_us=whole,
        repeats=len(used),
        parts=_undisturbed(own, [totals[call] for call in used], whole, median if steady else min),
        plain_us=median(plain) if plain else None,
        region_entries=_region_entries(used),
    )


STEADY = 1.5
"""Ratio of the quartiles of profiled calls up to which what they differ in is their own, such as page faults."""


def _is_steady(totals: Iterable[float]) -> bool:
    """Return whether calls take about equally long: no other program stops them."""
    in_order = sorted(totals)
    quarter = len(in_order) // 4
    return in_order[-1 - quarter] <= STEADY * in_order[quarter]


def _on_device(
    rounds: Sequence[Round], kernels: Sequence[Kernel], work: Sequence[DeviceWork], tasks: GraphTasks
) -> CallProfiled:
    split = _Split(rounds, kernels, work, Overhead(), tasks)
    used = faster_half([call for one in rounds for call in one.calls])
    own = {call: [piece for piece in work if piece.call is call] for call in used}
    all_work, times = list(chain.from_iterable(own.values())), len(used)
    replays = [piece for piece in all_work if piece.replayed]
    return CallProfiled(
        total_us=fmean(call.us for call in used),
        repeats=times,
        parts=_averages([split.on_device(call, pieces) for call, pieces in own.items()], [1.0] * times),
        region_entries=_region_entries(used),
        device_busy_us=sum(map(busy_us, own.values())) / times,
        launch_gaps_us=sum(map(gaps_us, own.values())) / times,
        device_tasks=round(len(all_work) / times),
        launches=round(_launches(all_work) / times),
        replays=round(_launches(replays) / times),
        replayed_tasks=round(len(replays) / times),
    )


def _launches(work: Sequence[DeviceWork]) -> int:
    return len({(piece.call, piece.launch) for piece in work})


def _region_entries(calls: Sequence[ProfilerEvent]) -> int:
    return round(sum(event.name.startswith(REGION) for call in calls for event in _all_below(call)) / len(calls))


def _all_below(event: ProfilerEvent) -> Iterator[ProfilerEvent]:
    for child in event.children:
        yield child
        yield from _all_below(child)


def _is_range(event: ProfilerEvent) -> bool:
    """Return whether torch's Python code opened the event; ops are cheaper."""
    return event.name.startswith(tuple(prefix for prefix, _ in PARTS)) and not event.name.startswith((CALL, GRAPH))


def _total(parts: Parts) -> float:
    return sum(times.us for times in parts.values())


def _shorten_host(parts: Parts, us: float) -> None:
    """Take the cost of the profiler's ranges, which are outside every op, from the host's parts."""
    host = [times for key, times in parts.items() if key.kind in HOST_KINDS]
    if total := sum(times.us for times in host):
        left = max(0.0, 1 - us / total)
        for times in host:
            times.us *= left
        for times in parts.values():
            times.launch_us *= left


# ---- cost of the profiler


@dataclass(frozen=True, slots=True)
class Overhead:
    """What the profiler adds to a call, in microseconds."""

    event_us: float = 0.0
    """By each event."""
    range_us: float = 0.0
    """By a range that Python code opens, in addition."""

    @property
    def inside_us(self) -> float:
        """The part of `event_us` within the event's own time: half, since nothing shows where its clock is read."""
        return self.event_us / 2

    @property
    def outside_us(self) -> float:
        """The part of `event_us` around the event, in the time of the event that contains it."""
        return self.event_us - self.inside_us

    def net_us(self, event: ProfilerEvent) -> float:
        """Return the time of an event and all below it, without the profiler's cost."""
        return max(0.0, event.us - self.inside_us - self.event_us * sum(1 for _ in _all_below(event)))

    def net_self_us(self, event: ProfilerEvent) -> float:
        """Return the time of an event that is in none of its children, without the profiler's cost."""
        children = sum(child.us for child in event.children)
        return max(0.0, event.us - children - self.inside_us - self.outside_us * len(event.children))


def _overhead(rounds: Sequence[Round]) -> Overhead:
    """Return the profiler's cost, from cheap ops and empty ranges within and without it."""
    events = [event for one in rounds for event in one.events]
    ops = [event for event in events if event.name == CALIBRATION + "ops"]
    empty = [event.us for event in events if event.name == CALIBRATION + "range"]
    if not ops or not empty:
        return Overhead()
    many = median(sum(1 for _ in _all_below(event)) for event in ops)
    added = min(event.us for event in ops) - median(one.plain_ops_us for one in rounds)
    event_us = max(0.0, added / many) if many else 0.0
    ranges = min(event.us for event in events if event.name == CALIBRATION + "ranges") / MARKS
    return Overhead(event_us, max(0.0, ranges - event_us))


# ---- parts


class _Split:
    """Splits calls into parts."""

    def __init__(
        self, rounds: Sequence[Round], kernels: Sequence[Kernel], work: Sequence[DeviceWork], overhead: Overhead,
        tasks: GraphTasks,
    ) -> None:  # fmt: skip
        self._names = frozenset(name for kernel in kernels for name in launch_names(kernel))
        self._steps: dict[ProfilerEvent | DeviceWork, KernelStep] = {}
        self._overhead = overhead
        for one in rounds:
            self._steps.update(kernel_steps(one.events, work, kernels, tasks))

    def on_host(self, call: ProfilerEvent) -> Parts:
        """Return the parts of a call, which add up to its time without the profiler's cost."""
        parts: Parts = {}
        self._add(parts, call, ("Python", ""), "")
        wrapper = parts.get(PartKey(*WRAPPER))
        _limit_launches(parts, wrapper.us if wrapper is not None else 0.0)
        return parts

    def on_device(self, call: ProfilerEvent, work: Sequence[DeviceWork]) -> Parts:
        """Return the device's work in a call, and of the host: guards, C++ kernels, and ops that launch nothing."""
        parts: Parts = {}
        seen: set[int] = set()
        waits = _without_first(_waits(call, work))
        replaying = {piece.graph for piece in work if piece.replayed}
        for piece, wait in zip(work, waits, strict=True):
            step = self._steps.get(piece)
            key = _key_of_work(piece, step)
            if key.kind == "library" and piece.graph in replaying and _is_copy(piece):
                key = key._replace(name=INPUTS_COPIED)
            times = parts.setdefault(key, PartTimes(replayed=piece.replayed))
            times.us += piece.us
            times.launch_us += wait if step is not None else 0.0
            times.functions[piece.name] = None
            times.launches += step is None or id(step) not in seen
            seen.add(id(step))
        names = {(key.kind, key.name) for key in parts}
        for key, times in self.on_host(call).items():
            if key.kind == "guards" or (key.kind in ("kernel", "eager op") and (key.kind, key.name) not in names):
                parts[key] = replace(times, us=0.0 if key.kind == "eager op" else times.us, launch_us=0.0)
        return parts

    def _add(self, parts: Parts, event: ProfilerEvent, outer: Named, graph: str) -> None:
        """Add an event and its children; their times add up to the event's."""
        if event.name == PROFILER:
            return
        if (key := self._key_of_whole(event, graph)) is not None:
            times = parts.setdefault(key, PartTimes())
            times.us += self._overhead.net_us(event)
            times.launches += 1
            return
        named = next((part for prefix, part in PARTS if event.name.startswith(prefix)), outer)
        times = parts.setdefault(PartKey(*named), PartTimes(launches=1))
        times.us += self._overhead.net_self_us(event)
        inner = _graph(event) or graph
        for child in event.children:
            self._add(parts, child, named, inner)
        if named == WRAPPER:
            self._add_launches(parts, event, inner)

    def _add_launches(self, parts: Parts, wrapper: ProfilerEvent, graph: str) -> None:
        """Add the wrapper's own time before each kernel to the kernel."""
        starts = [wrapper.start, *(child.end for child in wrapper.children)]
        around = self._overhead.outside_us
        gaps = [max(0.0, child.start - start - around) for child, start in zip(wrapper.children, starts, strict=False)]
        for child, gap in zip(wrapper.children, _without_first(gaps), strict=True):
            key = self._key_of_whole(child, graph)
            if key is not None and key.kind == "kernel":
                parts[key].launch_us += gap

    def _key_of_whole(self, event: ProfilerEvent, graph: str) -> PartKey | None:
        """Return the part of an event that counts as a whole, None for one that is split into its children."""
        if (step := self._steps.get(event)) is not None:
            return PartKey("kernel", step.kernel.name, f"{step.kernel.graph} {step.kernel.phase}")
        if event.name.startswith(KERNEL) or event.name in self._names:
            return PartKey("kernel", event.name.removeprefix(KERNEL), graph)
        if not is_op(event.name) or (event.parent is not None and is_of_autograd(event.name, event.parent.name)):
            return None
        return PartKey("library" if graph else "eager op", op_name(event.name), graph)


def _waits(call: ProfilerEvent, work: Sequence[DeviceWork]) -> Iterator[float]:
    """Yield how long the device waits before each piece of work."""
    until = call.start
    for piece in work:
        yield max(0.0, piece.start - until)
        until = max(until, piece.end)


def _without_first(times: Iterable[float]) -> list[float]:
    """Return the times before the launches of one graph or call, the first one no longer than the others usually are.

    Before its first kernel, a wrapper reads and checks all of its inputs, and a call evaluates its guards.
    """
    known = list(times)
    return [min(known[0], median(known[1:])), *known[1:]] if len(known) > 1 else known


def _limit_launches(parts: Parts, most_us: float) -> None:
    """Shorten the times before the launches if they exceed the part that they belong to."""
    total = sum(times.launch_us for times in parts.values())
    for times in parts.values() if total > most_us else ():
        times.launch_us *= most_us / total


def is_op(name: str) -> bool:
    """Return whether an event of this name is an op."""
    is_part = name.startswith(tuple(prefix for prefix, _ in PARTS))
    return "::" in name and not is_part and not name.startswith(("autograd::", "torch::"))


def op_name(name: str) -> str:
    """Return `aten.mul` for the event `aten::mul`."""
    return name.replace("::", ".")


def _key_of_work(piece: DeviceWork, step: KernelStep | None) -> PartKey:
    if step is not None:
        return PartKey("kernel", step.kernel.name, f"{step.kernel.graph} {step.kernel.phase}", "cuda")
    if piece.graph:
        return PartKey("library", piece.name, piece.graph, "cuda")
    above = piece.launch.with_ancestors() if piece.launch is not None else ()
    op = next((event for event in reversed(list(above)) if is_op(event.name)), None)
    return PartKey("eager op", piece.name if op is None else op_name(op.name), "", "cuda")


def _is_copy(piece: DeviceWork) -> bool:
    """Return whether a copy of torch's started a task, as before a CUDA graph that reads its inputs elsewhere."""
    above = piece.launch.with_ancestors() if piece.launch is not None and not piece.replayed else ()
    return any(event.name in _COPIES for event in above)


def _graph(event: ProfilerEvent) -> str:
    """Return `0/0 forward` for a marked graph, `UNKNOWN_GRAPH` for another one, empty for any other event."""
    if event.name.startswith(GRAPH):
        return graph_of_mark(event.name)[0]
    return UNKNOWN_GRAPH if event.name.startswith(GRAPHS) else ""


def _undisturbed(
    calls: Sequence[Mapping[PartKey, PartTimes]], totals: Sequence[float], whole: float,
    average: Callable[[Iterable[float]], float],
) -> tuple[CallPart, ...]:  # fmt: skip
    """Return the average of each part of calls on the host, scaled so that the parts add up to the `whole`.

    The time before each launch is a part of its own, and is then added to the wrapper's.
    """
    averages = _averages(list(map(_without_launches, calls)), totals, average)
    launches = sum(part.launch_us for part in averages)
    parts = [replace(part, us=part.us + launches) if (part.kind, part.name) == WRAPPER else part for part in averages]
    factor = whole / (sum(part.us for part in parts) or 1.0)
    return tuple(
        replace(
            part, us=part.us * factor, low_us=min(part.us * factor, part.low_us),
            high_us=max(part.us * factor, part.high_us), launch_us=part.launch_us * factor,
        )
        for part in sorted(parts, key=lambda part: -part.us)
    )  # fmt: skip


def _without_launches(parts: Mapping[PartKey, PartTimes]) -> Parts:
    """Return the parts of a call with a wrapper without the time before its launches."""
    launches = sum(times.launch_us for times in parts.values())
    return {
        key: replace(times, us=max(0.0, times.us - launches)) if (key.kind, key.name) == WRAPPER else times
        for key, times in parts.items()
    }


def _averages(
    calls: Sequence[Mapping[PartKey, PartTimes]], totals: Sequence[float],
    average: Callable[[Iterable[float]], float] = fmean,
) -> tuple[CallPart, ...]:  # fmt: skip
    """Return the average of each part, with the range of its shares of the `totals`; the longest part first."""
    whole = fmean(totals)
    averages = []
    for key in dict.fromkeys(key for call in calls for key in call):
        own = [call.get(key) or PartTimes() for call in calls]
        shares = [times.us / total if total else 0.0 for times, total in zip(own, totals, strict=True)]
        graph, _, phase = key.graph.strip().rpartition(" ")
        part = CallPart(
            kind=key.kind, name=key.name, graph=graph, phase=phase, us=average(times.us for times in own),
            low_us=min(shares) * whole, high_us=max(shares) * whole,
            launch_us=average(times.launch_us for times in own), device=key.device,
            launches=max(1, round(fmean(times.launches for times in own))),
            functions=tuple(dict.fromkeys(name for times in own for name in times.functions)),
            replayed=own[0].replayed,
        )  # fmt: skip
        if part.us or part.kind == "eager op":
            averages.append(part)
    return tuple(sorted(averages, key=lambda part: -part.us))


Item = TypeVar("Item")

_TRITON_FUNCTION = re.compile(r"@triton\.jit\s+def (\w+)\(")
_COPIES = ("aten::_foreach_copy_", "aten::copy_")
_UNPLANNED_OPS = (*_COPIES, "aten::empty", "aten::as_strided")
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
    return frozenset({kernel.name.partition(":")[0], *_TRITON_FUNCTION.findall(kernel.source)})


class KernelStep(NamedTuple):
    """A step of a graph's run that is a call of a kernel."""

    kernel: Kernel
    step: ProfileStep


class Task(NamedTuple):
    """A task of the device in a run of a graph."""

    name: str
    call: KernelStep | None
    """The call of a kernel that started it, None if it is not recognized."""


GraphTasks = Mapping[str, Sequence[Sequence[Task]]]
"""The tasks of each run of a graph in their order, by the name of the graph's mark."""


def graph_tasks(events: Sequence[ProfilerEvent], kernels: Sequence[Kernel]) -> GraphTasks:
    """Return the tasks that the graphs start in the first of the profiled calls."""
    work = device_work(events)
    steps = kernel_steps(events, work, kernels)
    first = next((event for event in events if event.name == CALL), None)
    tasks: dict[str, list[list[Task]]] = defaultdict(list)
    for run in _graph_runs(events):
        if first is not None and _call_of(run) is first:
            tasks[run.name].append([Task(piece.name, steps.get(piece)) for piece in _launched(run, work)])
    return tasks


def kernel_steps(
    events: Sequence[ProfilerEvent], work: Sequence[DeviceWork], kernels: Sequence[Kernel],
    tasks: GraphTasks | None = None,
) -> dict[ProfilerEvent | DeviceWork, KernelStep]:  # fmt: skip
    """Return the step of each op of the host, and of each task of the device, that is recognized in the profile."""
    modules = _modules(kernels)
    runs = [run for run in _graph_runs(events) if _call_of(run) is not None]
    in_parts = {graph for graph, number in map(graph_of_mark, (run.name for run in runs)) if number}
    numbers: Counter[tuple[ProfilerEvent | None, str]] = Counter()
    found: dict[ProfilerEvent | DeviceWork, KernelStep] = {}
    for run in runs:
        graph, number = graph_of_mark(run.name)
        known = modules[graph]
        own = known[number] if graph in in_parts and number < len(known) else list(chain.from_iterable(known))
        launched = _launched(run, work)
        for matched in _matched(_steps(run, launched), own):
            step = matched.step
            found.update(dict.fromkeys([step.host] if step.host is not None else step.work, matched))
        if same := (tasks or {}).get(run.name):
            nth = numbers[_call_of(run), run.name]
            numbers[_call_of(run), run.name] += 1
            found.update(_replayed(launched, same[min(nth, len(same) - 1)]))
    return found


def _graph_runs(events: Sequence[ProfilerEvent]) -> list[ProfilerEvent]:
    return [event for event in events if event.host and event.name.startswith(GRAPH)]


def _call_of(run: ProfilerEvent) -> ProfilerEvent | None:
    return next((event for event in run.with_ancestors() if event.name == CALL), None)


def _launched(run: ProfilerEvent, work: Sequence[DeviceWork]) -> list[DeviceWork]:
    """Return the tasks that a run of a graph started, in order of time."""
    return [piece for piece in work if piece.launch is not None and run in piece.launch.with_ancestors()]


def _replayed(work: Sequence[DeviceWork], tasks: Sequence[Task]) -> Iterator[tuple[DeviceWork, KernelStep]]:
    """Yield the step of each replayed task that has its place among the `tasks` of the same code.

    A replay also copies inputs, and a library may choose another kernel while torch records the graph.
    """
    matcher = SequenceMatcher(None, [piece.name for piece in work], [task.name for task in tasks], autojunk=False)
    steps: dict[int, KernelStep] = {}
    for tag, start, end, first, last in matcher.get_opcodes():
        if tag != "equal" and end - start != last - first:
            continue
        for piece, (_, call) in zip(work[start:end], tasks[first:last], strict=True):
            if piece.replayed and call is not None:
                own = KernelStep(call.kernel, ProfileStep(piece.name, replayed=True))
                step = steps.setdefault(id(call), own)
                step.step.work.append(piece)
                yield piece, step


def _modules(kernels: Sequence[Kernel]) -> dict[str, list[list[Kernel]]]:
    """Return the kernels of each generated module by the graph, which DDP may compile in parts: calls begin at 0."""
    modules: dict[str, list[list[Kernel]]] = defaultdict(list)
    for kernel in kernels:
        own = modules[f"{kernel.graph} {kernel.phase}"]
        if not own or any(call.order == 0 for call in kernel.calls):
            own.append([])
        own[-1].append(kernel)
    return modules


def _steps(run: ProfilerEvent, launched: Sequence[DeviceWork]) -> list[ProfileStep]:
    """Return the steps of one run of a graph.

    If the device worked in it, the only host ops that count are generated C++ kernels.
    """
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
    used = [step for step in steps if not step.name.startswith(_UNPLANNED_OPS) or step.replayed]
    generated = [KernelStep(by_name[step.name], step) for step in used if step.name in by_name]
    yield from generated
    calls = order_of_run(_planned(kernels), [id(kernel) for kernel, _ in generated], lambda call: id(call.kernel))
    if calls is None:
        return
    order = [call.kernel for call in calls]
    steps_between = _between(used, lambda step: step.name in by_name)
    externs_between = _between(order, lambda kernel: kernel.generated)
    for library_steps, externs in zip(steps_between, externs_between, strict=True):
        yield from _library_calls(library_steps, externs)


class _PlannedCall(NamedTuple):
    """A call of a kernel in the generated code."""

    kernel: Kernel
    subgraph: str = ""


def _planned(kernels: Sequence[Kernel]) -> list[_PlannedCall]:
    """Return the calls in the order of the generated code."""
    calls = sorted(((call, kernel) for kernel in kernels for call in kernel.calls), key=lambda pair: pair[0].order)
    planned = [_PlannedCall(kernel, subgraph_of(call.nodes)) for call, kernel in calls]
    return planned or [_PlannedCall(kernel) for kernel in kernels]


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
