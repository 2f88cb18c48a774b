"""A joined profile as events: the call of its median step, its steps, and what is on no line."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.profiles.generated_code import CodeCall
from tcexplore.profiles.profile_join import NOT_PLANNED, GraphCall, JoinedProfile, Place, PlaceKind

ODD = 0.2
"""Share of the median by which an odd step differs from it."""

MOST_UNJOINED = 200
"""Names with reasons that are listed; the others are one entry."""

_LOOKUP = "TorchDynamo Cache Lookup"
COLLECTIVE = "nccl"


class Work(NamedTuple):
    """A task of the device, or an op of the host in a profile without a device."""

    place: Place
    us: float
    step: int
    function: str
    """Name of the device's function; empty on the host."""
    replayed: bool = False


@dataclass(slots=True)
class _Part:
    us: float = 0.0
    launches: int = 0
    functions: dict[str, None] = field(default_factory=dict)
    replayed: bool = False


def all_work(joined: JoinedProfile) -> Iterator[Work]:
    """Yield the work of a profile."""
    return _tasks(joined) if joined.on_device else _host_work(joined)


def _tasks(joined: JoinedProfile) -> Iterator[Work]:
    tasks, names = joined.table.events["task"], joined.table.names
    graph_ops = {call.op for call in joined.graph_calls}
    for task, place in enumerate(joined.task_places):
        yield Work(
            joined.places[place], tasks.lengths[task], joined.task_step(task), names[tasks.names[task]],
            replayed=joined.task_launchers[task] in graph_ops,
        )  # fmt: skip


def _host_work(joined: JoinedProfile) -> Iterator[Work]:
    """Yield the outermost ops; in a graph, also the time between them, in which C++ kernels run."""
    ops = joined.table.events["op"]
    for op in joined.order:
        if joined.outermost[op]:
            step = joined.step_at(ops.starts[op] - joined.table.first)
            yield Work(joined.places[joined.op_places[op]], ops.lengths[op], step, "")
    for call in joined.graph_calls:
        step = joined.step_at(ops.starts[call.op] - joined.table.first)
        for place, _, us in between_ops(joined, call):
            yield Work(place, us, step, "")


def between_ops(joined: JoinedProfile, call: GraphCall) -> Iterator[tuple[Place, float, float]]:
    """Yield the times between the ops of a graph, with start and length: C++ kernels run in them, for which the
    profiler records no ops.
    """
    if call.module is None:
        return
    ops = joined.table.events["op"]
    start, end = ops.starts[call.op], ops.starts[call.op] + ops.lengths[call.op]
    places = [joined.places[joined.op_places[child]] for child in call.children]
    ran = [place.call.call.order for place in places if place.call is not None]
    if any(call.module.by_op.get(place.name) and place.call is None for place in places):
        ran = []
    hidden = [known for known in call.module.calls if known.kernel.language == "cpp" and known.call.order not in ran]
    before, after = -1, start
    for child, place in [*zip(call.children, places, strict=True), (None, None)]:
        until = end if child is None else ops.starts[child]
        order = place.call.call.order if place is not None and place.call is not None else None
        if place is not None and order is None:
            continue
        between = [
            known for known in hidden if before < known.call.order and (order is None or known.call.order < order)
        ]
        if between and until > after:
            yield _hidden_place(call, between), after, until - after
        if child is not None and order is not None:
            before, after = order, ops.starts[child] + ops.lengths[child]


def _hidden_place(call: GraphCall, calls: Sequence[CodeCall]) -> Place:
    assert call.module is not None, "the caller checks it"
    graph, phase = call.module.graph, call.module.phase
    if len(calls) == 1:
        reason = "" if calls[0].call.source_lines else "the trace names no line of its ops"
        return Place("kernel", calls[0].kernel.name, graph, phase, calls[0], reason=reason)
    names = ", ".join(known.op for known in calls[:3]) + (", …" if len(calls) > 3 else "")
    return Place("library", f"{len(calls)} C++ kernels: {names}", graph, phase, reason=NO_CPP_OPS)


NO_CPP_OPS = (
    "the profiler records no C++ kernels, and several ran between two library calls: set "
    "torch._inductor.config.cpp.enable_kernel_profile = True"
)


def profile_events(joined: JoinedProfile) -> list[ev.Event]:
    """Return the events of a joined profile."""
    work = list(all_work(joined))
    steps = _measure_steps(joined, work)
    median = _median(steps)
    parts = _parts(work, len(steps))
    unjoined = _unjoined(work)
    compiled = [known for known in work if _is_generated(known.place)]
    read = ev.ProfileRead(
        path=joined.table.name,
        device=joined.table.device if joined.on_device else "",
        steps=tuple(steps),
        median=steps[median].name,
        work_us=sum(known.us for known in work),
        work_on_lines_us=sum(known.us for known in work if known.place.lines),
        compiled_us=sum(known.us for known in compiled),
        compiled_on_lines_us=sum(known.us for known in compiled if known.place.lines),
        unjoined=unjoined,
        unread=joined.table.skipped,
    )
    return [_call(joined, steps, median, parts, work), read]


def _is_generated(place: Place) -> bool:
    """Return whether the generated code of a graph made the work: not a copy of the inputs of a CUDA graph."""
    return place.kind == "kernel" or (place.kind == "library" and place.reason != NOT_PLANNED)


def unseen_kernels(joined: JoinedProfile) -> list[ev.Kernel]:
    """Return the generated kernels of a profile without a trace, of which names, graphs and phases are known."""
    kernels: dict[tuple[str, str, str], int] = defaultdict(int)
    for place in joined.op_places:
        known = joined.places[place] if place >= 0 else None
        if known is not None and known.kind == "kernel" and known.call is None:
            kernels[known.graph, known.phase, known.name] += 1
    return [
        ev.Kernel(
            graph=graph, phase="backward" if phase == "backward" else "forward", name=name, language="triton", source=""
        )
        for graph, phase, name in kernels
    ]


def _measure_steps(joined: JoinedProfile, work: Sequence[Work]) -> list[ev.ProfiledStep]:
    tasks = joined.table.events["task"]
    spans: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for task in range(len(tasks)):
        spans[joined.task_step(task)].append((tasks.starts[task], tasks.starts[task] + tasks.lengths[task]))
    overhead = _overhead(joined)
    measured = []
    for number, step in enumerate(joined.steps):
        own = sorted(spans.get(number, []))
        span = max((end for _, end in own), default=0.0) - own[0][0] if own else 0.0
        busy = _union(own) if joined.on_device else None
        measured.append(
            ev.ProfiledStep(name=step.name, us=max(step.end - step.start, span), device_us=busy, tasks=len(own))
        )
    middle = statistics.median(step.us for step in measured)
    return [
        replace(step, odd=_oddness(joined, step, number, middle, measured, overhead[number], work))
        for number, step in enumerate(measured)
    ]


def _oddness(
    joined: JoinedProfile, step: ev.ProfiledStep, number: int, middle: float, steps: Sequence[ev.ProfiledStep],
    overhead: float, work: Sequence[Work],
) -> str:  # fmt: skip
    """Return how a step differs from the median one, and what differs most; empty if it does not."""
    if len(steps) < 3 or abs(step.us - middle) <= ODD * middle:
        return ""
    more = step.us - middle
    text = f"{abs(more) / middle:.0%} {'longer' if more > 0 else 'shorter'} than the median"
    causes = [(overhead - statistics.median(_overhead(joined)), "work of the profiler")]
    if step.device_us is not None:
        typical = statistics.median(known.device_us or 0.0 for known in steps)
        causes.append((step.device_us - typical, "work of the device"))
    else:
        totals = [sum(known.us for known in work if known.step == index) for index in range(len(steps))]
        causes.append((totals[number] - statistics.median(totals), "ops"))
    known, cause = max(causes, key=lambda item: item[0] * (1 if more > 0 else -1))
    if known * more > 0 and abs(known) >= 0.25 * abs(more):
        return f"{text}: {abs(known):,.0f} µs {'more' if more > 0 else 'less'} {cause}"
    return f"{text}: {'more' if more > 0 else 'less'} time of the host outside {causes[-1][1]}"


def _overhead(joined: JoinedProfile) -> list[float]:
    """Return the time that the profiler itself took in each step."""
    times = [0.0] * len(joined.steps)
    events = joined.table.events["overhead"]
    for index in range(len(events)):
        step = joined.step_at(events.starts[index] - joined.table.first)
        if step >= 0:
            times[step] += events.lengths[index]
    return times


def _union(spans: Iterable[tuple[float, float]]) -> float:
    """Return the time that sorted spans cover."""
    covered, until = 0.0, float("-inf")
    for start, end in spans:
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered


def _median(steps: Sequence[ev.ProfiledStep]) -> int:
    order = sorted(range(len(steps)), key=lambda index: steps[index].us)
    return order[(len(order) - 1) // 2]


_PartKey = tuple[PlaceKind, str, str, str, ev.Location | None]


def _parts(work: Iterable[Work], steps: int) -> dict[_PartKey, list[_Part]]:
    parts: dict[_PartKey, list[_Part]] = defaultdict(lambda: [_Part() for _ in range(steps)])
    for place, us, step, function, replayed in work:
        if step < 0:
            continue
        part = parts[place.kind, place.name, place.graph, place.phase, place.location][step]
        part.us += us
        part.launches += 1
        part.replayed = part.replayed or replayed
        if function and len(part.functions) < 8:
            part.functions[function] = None
    return parts


def _call(
    joined: JoinedProfile, steps: Sequence[ev.ProfiledStep], median: int, parts: dict[_PartKey, list[_Part]],
    work: Sequence[Work],
) -> ev.CallProfiled:  # fmt: skip
    """Return the median step as the call of a run."""
    call_parts = []
    for (kind, name, graph, phase, location), own in parts.items():
        part = own[median]
        if not part.launches:
            continue
        times = [known.us for known in own]
        call_parts.append(
            ev.CallPart(
                kind=kind, name=name, graph=graph, phase=phase, us=part.us, low_us=min(times), high_us=max(times),
                launches=part.launches, device="cuda" if joined.on_device else "cpu",
                functions=tuple(part.functions), replayed=part.replayed, location=location,
            )
        )  # fmt: skip
    guards, lookups = _guards(joined, median)
    if lookups:
        call_parts.append(ev.CallPart(kind="guards", name="", us=guards, low_us=guards, high_us=guards))
    call_parts.sort(key=lambda part: -part.us)
    own_work = [known for known in work if known.step == median]
    replayed = sum(known.replayed for known in own_work)
    replays = _replays(joined, median)
    return ev.CallProfiled(
        total_us=steps[median].us,
        repeats=len(steps),
        parts=tuple(call_parts),
        region_entries=lookups,
        device_busy_us=steps[median].device_us,
        device_tasks=len(own_work) if joined.on_device else 0,
        launches=len(own_work) - replayed + replays if joined.on_device else 0,
        replays=replays,
        replayed_tasks=replayed,
    )


def _replays(joined: JoinedProfile, step: int) -> int:
    tasks = joined.table.events["task"]
    graph_ops = {call.op for call in joined.graph_calls}
    return len(
        {
            tasks.correlations[task]
            for task, launcher in enumerate(joined.task_launchers)
            if launcher in graph_ops and joined.task_step(task) == step
        }
    )


def _guards(joined: JoinedProfile, step: int) -> tuple[float, int]:
    ops, names = joined.table.events["op"], joined.table.names
    lookup = {number for number, name in enumerate(names) if name == _LOOKUP}
    own = [
        ops.lengths[op]
        for op, name in enumerate(ops.names)
        if name in lookup and joined.step_at(ops.starts[op] - joined.table.first) == step
    ]
    return sum(own), len(own)


def _unjoined(work: Iterable[Work]) -> tuple[ev.UnjoinedWork, ...]:
    sums: dict[tuple[str, str, bool], list[float]] = defaultdict(lambda: [0.0, 0])
    for known in work:
        if not known.place.lines:
            own = sums[known.place.name, known.place.reason, _is_generated(known.place)]
            own[0] += known.us
            own[1] += 1
    listed = [
        ev.UnjoinedWork(name=name, reason=reason, us=us, count=int(count), compiled=compiled)
        for (name, reason, compiled), (us, count) in sums.items()
    ]
    listed.sort(key=lambda item: -item.us)
    rest = listed[MOST_UNJOINED:]
    if rest:
        more = ev.UnjoinedWork(
            name=f"{len(rest)} more", reason="", us=sum(item.us for item in rest), count=sum(i.count for i in rest)
        )
        listed = [*listed[:MOST_UNJOINED], more]
    return tuple(listed)


# ---- ranks


class Collective(NamedTuple):
    """One collective of a rank, by the order in which its stream runs them."""

    name: str
    us: float


def collectives(joined: JoinedProfile) -> list[Collective]:
    """Return the collectives of a rank in the order in which they run."""
    tasks, names = joined.table.events["task"], joined.table.names
    own = [task for task, name in enumerate(tasks.names) if names[name].startswith(COLLECTIVE)]
    own.sort(key=tasks.starts.__getitem__)
    return [Collective(names[tasks.names[task]], tasks.lengths[task]) for task in own]


def compare_profiles(profiles: Sequence[tuple[int, ev.ProfileRead, list[Collective]]]) -> ev.RanksProfiled:
    """Return the ranks side by side. A collective ends when all ranks took part, so its fastest rank arrived last."""
    waiting: dict[int, float] = defaultdict(float)
    for_whom: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    lists = [known for _, _, known in profiles]
    paired = len({tuple(item.name for item in own) for own in lists}) == 1
    for group in zip(*lists, strict=True) if paired else ():
        last = min(range(len(group)), key=lambda index: group[index].us)
        for index, known in enumerate(group):
            late = known.us - group[last].us
            rank = profiles[index][0]
            if index != last:
                share = late / len(profiles[index][1].steps)
                waiting[rank] += share
                for_whom[rank][profiles[last][0]] += share
    rows = []
    for rank, read, own in profiles:
        step = next(step for step in read.steps if step.name == read.median)
        blamed = for_whom.get(rank)
        rows.append(
            ev.ProfiledRank(
                rank=rank, path=read.path, us=step.us, device_us=step.device_us,
                communication_us=sum(known.us for known in own) / len(read.steps),
                waiting_us=waiting[rank],
                waits_for=max(blamed, key=lambda other: blamed[other]) if blamed else None,
            )
        )  # fmt: skip
    return ev.RanksProfiled(ranks=tuple(rows))
