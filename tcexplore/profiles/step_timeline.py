"""Steps of a joined profile as timelines: rows of the host and the device, and the causes of the device's gaps."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.profiles.generated_code import GeneratedCode
from tcexplore.profiles.profile_join import JoinedProfile, Place, join
from tcexplore.profiles.profile_run import COLLECTIVE, between_ops, profile_events
from tcexplore.profiles.profile_table import read_profile

MOST_STEPS = 8
"""Steps with a timeline: the median one, odd ones, then those nearest to the median one."""

MOST_SPANS = 20_000
"""Spans of a timeline; if there are more, the shortest ones are left out."""

_QUEUED_US = 0.5
"""Clocks of the host and the device differ by less."""

_SYNCHRONIZES = re.compile(r"^(?:cuda|hip)(?:Stream|Device|Event)Synchronize|^cu(?:Stream|Ctx|Event)Synchronize"
                           r"|^(?:cuda|hip)Memcpy$")  # fmt: skip
_EVALUATE = "autograd::engine::evaluate_function: "
_BACKWARD = re.compile(rf"^{_EVALUATE}|^CompiledFunctionBackward")
_GRAPH = re.compile(
    r"^(?:Torch-Compiled Region: |CompiledFunction$|## Call CompiledFxGraph|TorchDynamo Cache Lookup"
    r"|Pregraph bytecode|AOTDispatcher )"
)
_PHASES: tuple[tuple[str, ev.StepPartKind], ...] = (
    ("enumerate(DataLoader)#", "data"),
    ("Optimizer.step#", "optimizer"),
    ("Optimizer.zero_grad#", "optimizer"),
)
_STEP = re.compile(r"^ProfilerStep\s*#?\s*\d+$")
_NOT_MARKS = re.compile(r"^(?:ProfilerStep|Optimizer\.|enumerate\(DataLoader\)|tcexplore region |## Call )")
_LAYER = re.compile(r"^.*?\.?\d+(?=\.|$)|^[^.]+")
"""Path of a module up to the first number: the member of a list of layers."""

_NEAR = 4
"""Ops before a gap that may reach into it: one for each thread."""

HOST_PHASES: tuple[ev.StepPartKind, ...] = ("data", "forward", "backward", "optimizer", "other ops", "between ops")

Modules = Mapping[tuple[str, str, str], str | None]
"""Module of each post-grad node, by graph, phase and name."""


def modules_of(events: Iterable[ev.Event]) -> Modules:
    """Return the modules of the post-grad nodes of a run: paths from the outermost module where these are known."""
    known = list(events)
    paths = {
        (captured.graph, module.source): module.path or module.root
        for captured in known
        if isinstance(captured, ev.GraphCaptured)
        for module in captured.modules
        if module.path is not None
    }
    return {
        (graph.graph, graph.phase, node.name): paths.get((graph.graph, node.module or ""), node.module)
        for graph in known
        if isinstance(graph, ev.AtenGraph) and graph.stage == "post_grad"
        for node in graph.nodes
    }


class _Interval(NamedTuple):
    start: float
    end: float


class _Launch(NamedTuple):
    start: float
    end: float
    thread: int


class _Wait(NamedTuple):
    """A call of the driver in which the host waits for the device."""

    start: float
    end: float
    name: str
    op: int
    """Index of the op around it, -1 for none."""


class _Top(NamedTuple):
    """An op that is in no other one, with the phase that it belongs to."""

    start: float
    end: float
    phase: ev.StepPartKind
    op: int


def step_timelines(
    joined: JoinedProfile, steps: Sequence[ev.ProfiledStep], median: int, modules: Modules
) -> list[ev.StepTimeline]:
    """Return the timelines of the steps of a profile, the median one first."""
    order = sorted(
        range(len(steps)), key=lambda number: (number != median, not steps[number].odd, abs(number - median))
    )
    chosen = order[:MOST_STEPS]
    parts = _StepEvents(joined, frozenset(chosen))
    return [_Timeline(joined, number, parts, modules).event(steps[number]) for number in chosen]


def timeline_of_run(profile: bytes, code: Sequence[ev.Event], sources: Mapping[str, str]) -> ev.StepTimeline:
    """Return the timeline of the median step of a profile of a live run.

    `code` has the run's graphs and kernels, `sources` the texts of the user's files.
    """
    joined = join(read_profile("profile", profile), GeneratedCode.of_events(code), dict(sources))
    read = next(event for event in profile_events(joined) if isinstance(event, ev.ProfileRead))
    median = [step.name for step in read.steps].index(read.median)
    timeline = step_timelines(joined, read.steps, median, modules_of(code))[0]
    return replace(timeline, step=timeline.step.replace("ProfilerStep#", "step "), odd="")


class _StepEvents:
    """The ops, tasks and calls of the driver by step."""

    def __init__(self, joined: JoinedProfile, chosen: frozenset[int]) -> None:
        self._joined = joined
        table = joined.table
        self.first = table.first
        self.ops: dict[int, list[int]] = defaultdict(list)
        """Ops by thread and start, outer ones first."""
        starts, first = table.events["op"].starts, table.first
        for op in joined.order:
            if (step := joined.step_at(starts[op] - first)) in chosen:
                self.ops[step].append(op)
        self.tasks: dict[int, list[int]] = defaultdict(list)
        self.ends: dict[int, float] = defaultdict(float)
        """End of the last task of each step."""
        tasks = table.events["task"]
        for task in range(len(tasks)):
            step = joined.task_step(task)
            self.ends[step] = max(self.ends[step], tasks.starts[task] - first + tasks.lengths[task])
            self.tasks[step].append(task)
        self.launches: dict[int, _Launch] = {}
        self.waits: list[_Wait] = []
        self._calls_of_driver()
        self.stalls = sorted(
            _Interval(start - first, start - first + length)
            for start, length in zip(table.events["overhead"].starts, table.events["overhead"].lengths, strict=True)
        )

    def _calls_of_driver(self) -> None:
        table = self._joined.table
        calls = table.events["launch"]
        waiting = {number for number, name in enumerate(table.names) if _SYNCHRONIZES.match(name)}
        op_of = {}
        if waits := {calls.ids[index] for index, name in enumerate(calls.names) if name in waiting} - {0}:
            op_of = {external: op for op, external in enumerate(table.events["op"].ids) if external in waits}
        for index, name in enumerate(calls.names):
            start = calls.starts[index] - self.first
            end = start + calls.lengths[index]
            if name in waiting:
                self.waits.append(_Wait(start, end, table.names[name], op_of.get(calls.ids[index], -1)))
            if calls.correlations[index]:
                self.launches[calls.correlations[index]] = _Launch(start, end, calls.threads[index])
        self.waits.sort()


class _Timeline:
    """Makes the timeline of one step. Times are in microseconds since its beginning on the host."""

    def __init__(self, joined: JoinedProfile, number: int, events: _StepEvents, modules: Modules) -> None:
        self._joined = joined
        self._events = events
        self._modules = modules
        self._number = number
        table = joined.table
        self._table = table
        self._names = table.names
        step = joined.steps[number]
        self._origin = step.start
        own_tasks = events.tasks[number]
        starts = [self._at(table.events["task"].starts[task]) for task in own_tasks]
        before = max((end for index, end in events.ends.items() if index < number and end), default=0.0) - step.start
        self._from = min([max(0.0, before), *starts]) if own_tasks else 0.0
        own_end = events.ends[number] - step.start if own_tasks else 0.0
        self._until = max(step.end - step.start, own_end)
        self._host_end = step.end - step.start
        self._spans: dict[int, ev.TimelineSpan] = {}

    def _at(self, start: float) -> float:
        return start - self._table.first - self._origin

    def event(self, step: ev.ProfiledStep) -> ev.StepTimeline:
        tops = self._tops()
        phases = _merged_phases(tops)
        threads = self._op_spans()
        rows = [*self._host_rows(phases, tops, threads)]
        gaps: tuple[ev.TimelineGap, ...] = ()
        if self._joined.on_device:
            device, busy, gaps = self._device(phases, tops, _by_start(threads))
            rows += device
            parts = _device_parts(busy, gaps)
        else:
            parts = _host_parts(phases, self._until)
        rows, left_out, left_out_us = _limited([row for row in rows if row.spans])
        return ev.StepTimeline(
            step=step.name, odd=step.odd, us=self._until, device=self._table.device if self._joined.on_device else "",
            counted_from_us=self._from if self._joined.on_device else 0.0, rows=tuple(rows), gaps=gaps,
            parts=parts, left_out=left_out, left_out_us=left_out_us,
        )  # fmt: skip

    # ---- the host

    def _tops(self) -> list[_Top]:
        """Return the outermost ops of all threads by start, with their phases."""
        ranges = list(self._phase_ranges())
        ops = self._table.events["op"]
        tops: list[_Top] = []
        thread, until = -1, 0.0
        for op in self._events.ops[self._number]:
            start = self._at(ops.starts[op])
            if ops.threads[op] == thread and start < until:
                continue
            thread, until = ops.threads[op], start + ops.lengths[op]
            inside = next((phase for span, phase in ranges if span.start <= start < span.end), None)
            tops.append(_Top(start, until, inside or self._phase_of(op), op))
        tops += [_Top(*span, phase, -1) for span, phase in ranges]
        return sorted(self._with_forward_ops(tops))

    def _with_forward_ops(self, tops: Sequence[_Top]) -> Iterator[_Top]:
        """Yield the ops; eager ones belong to the forward if autograd runs the node that they made.

        Of the ops with the sequence number of a node, the last one made it.
        """
        sequences = self._table.events["op"].sequences
        of_step = self._events.ops[self._number]
        backward = {-sequences[op] for op in of_step if sequences[op] < 0}
        makers: dict[int, tuple[float, int]] = {}
        for top in tops:
            sequence = sequences[top.op] if top.op >= 0 else 0
            if sequence in backward:
                makers[sequence] = max(makers.get(sequence, (top.start, top.op)), (top.start, top.op))
        made = {op for _, op in makers.values()}
        for top in tops:
            yield top._replace(phase="forward") if top.phase == "other ops" and top.op in made else top

    def _phase_ranges(self) -> Iterator[tuple[_Interval, ev.StepPartKind]]:
        for start, end, name in self._annotations():
            for beginning, phase in _PHASES:
                if name.startswith(beginning):
                    yield _Interval(start, end), phase

    def _annotations(self) -> Iterator[tuple[float, float, str]]:
        events = self._table.events["annotation"]
        for index, name in enumerate(events.names):
            start = self._at(events.starts[index])
            if 0 <= start < self._until and not self._table.threads[events.threads[index]].device:
                yield start, min(start + events.lengths[index], self._until), self._names[name]

    def _phase_of(self, op: int) -> ev.StepPartKind:
        name, sequence = self._names[self._table.events["op"].names[op]], self._table.events["op"].sequences[op]
        if _BACKWARD.match(name) or sequence < 0:
            return "backward"
        return "forward" if _GRAPH.match(name) else "other ops"

    def _host_rows(
        self, phases: Sequence[_Top], tops: Sequence[_Top], threads: Mapping[int, list[ev.TimelineSpan]]
    ) -> Iterator[ev.TimelineRow]:
        yield ev.TimelineRow(name="step", place="host", spans=tuple(
            ev.TimelineSpan(name=top.phase, start_us=top.start, us=top.end - top.start, kind=_phase_kind(top.phase))
            for top in phases
        ))  # fmt: skip
        marks = [known for known in self._annotations() if not _NOT_MARKS.match(known[2]) and not _STEP.match(known[2])]
        yield ev.TimelineRow(name="marks", place="host", spans=tuple(
            ev.TimelineSpan(name=name, start_us=start, us=end - start, kind="mark")
            for start, end, name in _outermost(sorted(marks))
        ))  # fmt: skip
        yield ev.TimelineRow(name="modules", place="host", spans=_layers(_by_start(threads)))
        backward = {self._table.events["op"].threads[top.op] for top in tops if top.phase == "backward" and top.op >= 0}
        main = self._main_thread(threads)
        for number, spans in sorted(threads.items(), key=lambda item: item[0] != main):
            name = "ops" if number == main else "autograd" if number in backward else f"thread {number}"
            yield ev.TimelineRow(name=name, place="host", spans=tuple(spans))
        yield ev.TimelineRow(name="waits", place="host", spans=tuple(self._wait_spans()))

    def _main_thread(self, threads: Mapping[int, Sequence[ev.TimelineSpan]]) -> int:
        """Return the thread that marks the steps, else the one that is first."""
        events = self._table.events["annotation"]
        for index, name in enumerate(events.names):
            if _STEP.match(self._names[name]) and not self._table.threads[events.threads[index]].device:
                return events.threads[index]
        return min(threads, key=lambda number: threads[number][0].start_us, default=-1)

    def _op_spans(self) -> dict[int, list[ev.TimelineSpan]]:
        """Return the outermost ops of each thread; of a graph those inside it, and what C++ kernels run between."""
        joined, ops = self._joined, self._table.events["op"]
        threads: dict[int, list[ev.TimelineSpan]] = defaultdict(list)
        for op in self._events.ops[self._number]:
            if joined.outermost[op]:
                place = joined.places[joined.op_places[op]]
                name = self._names[ops.names[op]]
                threads[ops.threads[op]].append(self._span(name, self._at(ops.starts[op]), ops.lengths[op], place))
        if not joined.on_device:
            for call in joined.graph_calls:
                if joined.step_at(ops.starts[call.op] - self._table.first) == self._number:
                    for place, start, us in between_ops(joined, call):
                        threads[ops.threads[call.op]].append(self._span(place.name, self._at(start), us, place))
        for spans in threads.values():
            spans.sort(key=lambda span: span.start_us)
        return threads

    def _span(
        self, name: str, start: float, us: float, place: Place, kind: ev.SpanKind | None = None
    ) -> ev.TimelineSpan:
        call = place.call
        kernel, modules = "", tuple[str, ...]()
        if call is not None:
            kernel = call.kernel.name
            nodes = ((place.graph, place.phase, node) for node in call.call.nodes)
            modules = tuple(dict.fromkeys(module for key in nodes if (module := self._modules.get(key))))
            if kind is None and not call.kernel.generated:
                kind = "library"
        op = place.name if place.name not in (name, kernel) else ""
        return ev.TimelineSpan(
            name=name, start_us=start, us=us, kind=kind or place.kind, op=op, kernel=kernel, graph=place.graph,
            phase=place.phase, modules=modules, source_lines=place.lines,
        )  # fmt: skip

    def _wait_spans(self) -> Iterator[ev.TimelineSpan]:
        for start, end, name, op in self._events.waits:
            begin = start - self._origin
            if 0 <= begin < self._until:
                known = self._joined.op_places[op] if op >= 0 else -1
                place = self._joined.places[known] if known >= 0 else None
                yield ev.TimelineSpan(
                    name=name, start_us=begin, us=end - start, kind="synchronization", op=place.name if place else "",
                    source_lines=place.lines if place else (),
                )  # fmt: skip

    # ---- the device

    def _device(
        self, phases: Sequence[_Top], tops: Sequence[_Top], ops: Sequence[ev.TimelineSpan]
    ) -> tuple[list[ev.TimelineRow], dict[ev.StepPartKind, list[_Interval]], tuple[ev.TimelineGap, ...]]:
        """Return the streams, when the device computes, copies and communicates, and its gaps."""
        tasks = self._table.events["task"]
        streams: dict[int, list[ev.TimelineSpan]] = defaultdict(list)
        work: dict[ev.StepPartKind, list[_Interval]] = {"computing": [], "copy": [], "collective": []}
        listed: list[tuple[float, float, int]] = []
        for step, own in self._events.tasks.items():
            for task in own:
                start = self._at(tasks.starts[task])
                end = start + tasks.lengths[task]
                if step == self._number or (end > self._from and start < self._until):
                    listed.append((max(start, self._from), min(end, self._until), task))
        listed.sort()
        for start, end, task in listed:
            name, place = self._names[tasks.names[task]], self._joined.places[self._joined.task_places[task]]
            kind = _task_kind(name, place)
            streams[tasks.threads[task]].append(self._span(name, start, end - start, place, kind))
            part: ev.StepPartKind = "copy" if kind == "copy" else "collective" if kind == "collective" else "computing"
            work[part].append(_Interval(start, end))
        computing = _union(work["computing"])
        copying = _without(_union(work["copy"]), computing)
        used = _union([*computing, *copying])
        busy: dict[ev.StepPartKind, list[_Interval]] = {
            "computing": computing, "copy": copying, "collective": _without(_union(work["collective"]), used),
        }  # fmt: skip
        used = _union([*used, *busy["collective"]])
        idle = _without([_Interval(self._from, self._until)], used)
        starts = [start for start, _, _ in listed]
        named_ops = _Starts((op.start_us, op.start_us + op.us, op.name) for op in ops)
        named_tops = _Starts((top.start, top.end, self._top_name(top.op)) for top in tops if top.op >= 0)

        def doing(gap: _Interval) -> str:
            return _doing(gap, phases, named_ops, named_tops)

        gaps = tuple(self._gap(gap, listed, starts, doing) for gap in idle)
        rows = [ev.TimelineRow(name="modules", place="device", spans=_layers(_by_start(streams)))]
        for number, spans in sorted(streams.items(), key=lambda item: item[1][0].start_us):
            rows.append(
                ev.TimelineRow(name=f"stream {self._table.threads[number].tid}", place="device", spans=_flat(spans))
            )
        return rows, busy, gaps

    def _gap(
        self, gap: _Interval, listed: Sequence[tuple[float, float, int]], starts: Sequence[float],
        doing: Callable[[_Interval], str],
    ) -> ev.TimelineGap:  # fmt: skip
        """Return a gap with its cause: what the host did before it launched the next task."""
        at = bisect_left(starts, gap.end - 1e-9)
        follower = listed[at][2] if at < len(listed) else -1
        launch = None
        if follower >= 0:
            launch = self._events.launches.get(self._table.events["task"].correlations[follower])
            if launch is None:
                return self._made_gap(gap, "not known", "the launch of the next task is not in the profile")
            launch = _Launch(launch.start - self._origin, launch.end - self._origin, launch.thread)
        launched = launch.start if launch is not None else gap.end
        if launched <= gap.start:
            assert launch is not None, "a gap without a next task is not launched before it"
            text = f"launched {_us(gap.start - launched)} before the gap: the device takes this to start the next task"
            return self._made_gap(gap, "queued", text, self._task_line(follower))
        until = min(launched, gap.end)
        wait = self._wait_at(gap.start, launched if launch is not None else None)
        if wait is not None:
            return self._waited(gap, wait, until)
        stalled = sum(
            max(0.0, min(end - self._origin, until) - max(start - self._origin, gap.start))
            for start, end in self._events.stalls
        )
        if stalled > 0.5 * (gap.end - gap.start):
            return self._made_gap(gap, "profiler", f"the profiler itself took {_us(stalled)} of the host")
        host = doing(_Interval(gap.start, until))
        if launch is None:
            return self._made_gap(gap, "host-bound", f"no more launches in this step; the host is {host}")
        since = "the step begins" if gap.start <= self._from else "the last task"
        text = f"the next launch comes {_us(launched - gap.start)} after {since}; the host is {host}"
        return self._made_gap(gap, "host-bound", text, self._task_line(follower))

    def _top_name(self, op: int) -> str:
        return self._names[self._table.events["op"].names[op]].removeprefix(_EVALUATE)

    def _made_gap(
        self, gap: _Interval, cause: ev.StepPartKind, reason: str, location: ev.Location | None = None
    ) -> ev.TimelineGap:
        return ev.TimelineGap(start_us=gap.start, us=gap.end - gap.start, cause=cause, reason=reason, location=location)

    def _task_line(self, task: int) -> ev.Location | None:
        lines = self._joined.places[self._joined.task_places[task]].lines
        return lines[0] if lines else None

    def _wait_at(self, start: float, launched: float | None) -> _Wait | None:
        """Return the call in which the host waits for the device when this becomes idle, and that ends before the
        launch of the next task.
        """
        waits, origin = self._events.waits, self._origin
        at = bisect_right(waits, start + origin, key=lambda known: known.start)
        for wait in reversed(waits[max(0, at - _NEAR) : at]):
            end = wait.end - origin
            if end >= start - _QUEUED_US and (launched is None or end <= launched + _QUEUED_US):
                return wait
        return None

    def _waited(self, gap: _Interval, wait: _Wait, until: float) -> ev.TimelineGap:
        known = self._joined.op_places[wait.op] if wait.op >= 0 else -1
        place = self._joined.places[known] if known >= 0 else None
        lines = place.lines if place is not None else ()
        called = f"{place.name} ({wait.name})" if place is not None else wait.name
        late = max(0.0, until - (wait.end - self._origin))
        text = f"the host waited for the device in {called}, and launched the next task {_us(late)} later"
        return self._made_gap(gap, "synchronization", text, lines[0] if lines else None)


def _us(us: float) -> str:
    return f"{us:,.1f} µs" if us < 100 else f"{us:,.0f} µs"


def _task_kind(name: str, place: Place) -> ev.SpanKind:
    if name.startswith("Memcpy"):
        return "copy"
    if name.startswith("Memset"):
        return "fill"
    if name.startswith(COLLECTIVE):
        return "collective"
    return "library" if place.call is not None and not place.call.kernel.generated else place.kind


def _phase_kind(phase: ev.StepPartKind) -> ev.SpanKind:
    return phase  # type: ignore[return-value]  # a phase of the host is a kind of both


def _by_start(rows: Mapping[int, Sequence[ev.TimelineSpan]]) -> list[ev.TimelineSpan]:
    return sorted((span for spans in rows.values() for span in spans), key=lambda span: span.start_us)


def _merged_phases(tops: Sequence[_Top]) -> list[_Top]:
    """Return one span for consecutive ops of one phase; without overlap, and with the time between them."""
    merged: list[_Top] = []
    for top in tops:
        last = merged[-1] if merged else None
        if last is not None and last.phase == top.phase:
            merged[-1] = last._replace(end=max(last.end, top.end))
            continue
        start = max(top.start, last.end) if last is not None else top.start
        if top.end > start:
            merged.append(top._replace(start=start))
    return merged


def _outermost(marks: Iterable[tuple[float, float, str]]) -> Iterator[tuple[float, float, str]]:
    until = 0.0
    for start, end, name in marks:
        if start >= until:
            yield start, end, name
            until = end


def _layers(spans: Iterable[ev.TimelineSpan]) -> tuple[ev.TimelineSpan, ...]:
    """Return one span for consecutive work of one layer and phase; what is in no module ends a layer."""
    layers: list[ev.TimelineSpan] = []
    current = ("", "")
    for span in spans:
        match = _LAYER.match(span.modules[0]) if span.modules else None
        key = (match[0] if match else "", span.phase)
        end = span.start_us + span.us
        if key[0] and key == current:
            last = layers[-1]
            layers[-1] = replace(last, us=max(last.us, end - last.start_us))
        elif key[0]:
            start = max(span.start_us, layers[-1].start_us + layers[-1].us) if layers else span.start_us
            layers.append(ev.TimelineSpan(
                name=key[0], start_us=start, us=max(0.0, end - start), kind="module", graph=span.graph,
                phase=span.phase, modules=(key[0],), source_lines=span.source_lines[:1],
            ))  # fmt: skip
        current = key
    return tuple(layers)


def _flat(spans: Sequence[ev.TimelineSpan]) -> tuple[ev.TimelineSpan, ...]:
    """Return the spans of a stream; timestamps are rounded, so a task may begin before the end of the one before."""
    flat: list[ev.TimelineSpan] = []
    until = 0.0
    for span in spans:
        start = max(span.start_us, until)
        until = max(until, span.start_us + span.us)
        flat.append(replace(span, start_us=start, us=max(0.0, until - start)) if start > span.start_us else span)
    return tuple(flat)


def _union(intervals: Sequence[_Interval]) -> list[_Interval]:
    merged: list[_Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1].end:
            merged[-1] = _Interval(merged[-1].start, max(end, merged[-1].end))
        elif end > start:
            merged.append(_Interval(start, end))
    return merged


def _without(intervals: Sequence[_Interval], used: Sequence[_Interval]) -> list[_Interval]:
    """Return the parts of sorted intervals that are outside other sorted ones."""
    rest: list[_Interval] = []
    at = 0
    for start, end in intervals:
        while at < len(used) and used[at].end <= start:
            at += 1
        position = at
        while position < len(used) and used[position].start < end:
            if used[position].start > start:
                rest.append(_Interval(start, used[position].start))
            start = max(start, used[position].end)
            position += 1
        if end > start:
            rest.append(_Interval(start, end))
    return rest


def _doing(gap: _Interval, phases: Sequence[_Top], ops: _Starts, tops: _Starts) -> str:
    """Return where the host is in most of a gap: its phase, and the op, or the one between whose ops it is."""
    half = 0.5 * (gap.end - gap.start)
    phase = max(phases, key=lambda top: min(top.end, gap.end) - max(top.start, gap.start), default=None)
    inside = phase is not None and min(phase.end, gap.end) - max(phase.start, gap.start) > half
    where = f"in {phase.phase}, " if inside and phase is not None and phase.phase != "other ops" else ""
    for intervals, beginning in ((ops, "in "), (tops, "between the ops of ")):
        name, us = intervals.most_in(gap)
        if us > half:
            return f"{where}{beginning}{name}"
    return f"{where}between ops"


class _Starts:
    """Named intervals by start, each list of one thread without overlap."""

    def __init__(self, intervals: Iterable[tuple[float, float, str]]) -> None:
        self._intervals = sorted(intervals)
        self._starts = [start for start, _, _ in self._intervals]

    def most_in(self, gap: _Interval) -> tuple[str, float]:
        """Return the name with the most time in a gap, and this time."""
        spent: dict[str, float] = defaultdict(float)
        first, last = bisect_left(self._starts, gap.start) - _NEAR, bisect_right(self._starts, gap.end)
        for start, end, name in self._intervals[max(0, first) : last]:
            spent[name] += max(0.0, min(end, gap.end) - max(start, gap.start))
        name = max(spent, key=lambda known: spent[known], default="")
        return name, spent.get(name, 0.0)


def _device_parts(
    busy: Mapping[ev.StepPartKind, Sequence[_Interval]], gaps: Sequence[ev.TimelineGap]
) -> tuple[ev.TimelinePart, ...]:
    parts = [
        ev.TimelinePart(kind=kind, us=sum(end - start for start, end in own), count=len(own))
        for kind, own in busy.items() if own
    ]  # fmt: skip
    causes: dict[ev.StepPartKind, list[float]] = defaultdict(list)
    for gap in gaps:
        causes[gap.cause].append(gap.us)
    idle = [ev.TimelinePart(kind=kind, us=sum(own), count=len(own)) for kind, own in causes.items()]
    return (*parts, *sorted(idle, key=lambda part: -part.us))


def _host_parts(phases: Sequence[_Top], us: float) -> tuple[ev.TimelinePart, ...]:
    sums: dict[ev.StepPartKind, list[float]] = defaultdict(list)
    until = 0.0
    for top in phases:
        if top.start > until:
            sums["between ops"].append(top.start - until)
        sums[top.phase].append(top.end - top.start)
        until = top.end
    if us > until:
        sums["between ops"].append(us - until)
    return tuple(
        ev.TimelinePart(kind=kind, us=sum(sums[kind]), count=len(sums[kind])) for kind in HOST_PHASES if kind in sums
    )


def _limited(rows: list[ev.TimelineRow]) -> tuple[list[ev.TimelineRow], int, float]:
    """Return rows with the longest spans, how many others there are, and their time."""
    lengths = sorted((span.us for row in rows for span in row.spans), reverse=True)
    if len(lengths) <= MOST_SPANS:
        return rows, 0, 0.0
    least = lengths[MOST_SPANS]
    kept = [replace(row, spans=tuple(span for span in row.spans if span.us > least)) for row in rows]
    number = sum(len(row.spans) for row in kept)
    rest = sum(lengths) - sum(span.us for row in kept for span in row.spans)
    return [row for row in kept if row.spans], len(lengths) - number, rest
