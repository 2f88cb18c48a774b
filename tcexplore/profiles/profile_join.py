"""Each op and each task of a device joined to the call in the generated code that made it, or to its eager op.

A task has the External id of the op that launched it; a graph is an op that is named after its cache key. The ops in
it are the calls of its generated module, in order.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import Literal, NamedTuple

from tcexplore import events as ev
from tcexplore.profiles.eager_lines import EagerLines
from tcexplore.profiles.generated_code import CodeCall, GeneratedCode, Module, code_name
from tcexplore.profiles.profile_table import GRAPH_CALL, ProfileTable
from tcexplore.torch_text.repeated_subgraphs import order_of_run

_GRAPH_CALL = re.compile(rf"^{GRAPH_CALL} (\S*) ##$")
_REGION = "Torch-Compiled Region: "
_BACKWARD = "CompiledFunctionBackward"
_EVALUATE = "autograd::engine::evaluate_function: "
_CONTAINER = re.compile(
    rf"^(?:{_EVALUATE}|{_REGION}|CompiledFunction|TorchDynamo Cache Lookup|Pregraph bytecode|AOTDispatcher )"
)
"""Ops of torch.compile and autograd around other ops."""
_STEP = re.compile(r"^ProfilerStep\s*#?\s*\d+$")
_HELPER = re.compile(r"splitKreduce|^Memset|^Memcpy")
"""Tasks that a library call starts besides its kernel."""
_SLACK_US = 0.005
"""Timestamps are rounded to nanoseconds."""

PlaceKind = Literal["kernel", "library", "eager op"]


@dataclass(frozen=True, slots=True)
class Place:
    """What an op or a task belongs to."""

    kind: PlaceKind
    name: str
    graph: str = ""
    phase: str = ""
    call: CodeCall | None = None
    location: ev.Location | None = None
    """Line of an eager op."""
    reason: str = ""
    """Why it is on no line; empty if it is on one."""

    @property
    def lines(self) -> tuple[ev.Location, ...]:
        """Lines of user code."""
        if self.call is not None:
            return self.call.call.source_lines
        return (self.location,) if self.location is not None else ()


class Step(NamedTuple):
    """A step of the profiled program, in microseconds."""

    name: str
    start: float
    end: float


@dataclass(slots=True)
class GraphCall:
    """One call of a compiled graph."""

    op: int
    """Index of the op."""
    key: str
    region: str
    backward: bool
    sequence: int = 0
    """Sequence number of autograd that a forward and its backward share, 0 for none."""
    children: list[int] = field(default_factory=list)
    module: Module | None = None
    reason: str = ""

    @property
    def graph(self) -> str:
        """Its graph; the compiled region if its code is unknown."""
        return self.module.graph if self.module else self.region

    @property
    def phase(self) -> str:
        if self.module:
            return self.module.phase
        return "backward" if self.backward else "forward"

    def place_of(self, call: CodeCall) -> Place:
        """Return the place of a kernel that a call in its generated code launched."""
        reason = "" if call.call.source_lines else NO_LINE
        return Place("kernel", call.kernel.name, self.graph, self.phase, call, reason=reason)


@dataclass(slots=True)
class JoinedProfile:
    """A profile with the place of each of its ops and tasks. A place is an index into `places`, -1 for none."""

    table: ProfileTable
    steps: list[Step]
    places: list[Place]
    op_places: array[int]
    task_places: array[int]
    task_launchers: array[int]
    """Index of the op that launched a task, -1 if unknown."""
    graph_calls: list[GraphCall]
    order: list[int]
    """Ops by thread and start."""
    outermost: bytearray
    """1 for each op that is a call of a graph, or not inside another op outside the graphs."""
    _step_starts: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self._step_starts = [step.start for step in self.steps]

    def step_at(self, start: float) -> int:
        """Return the number of the step at a time, -1 outside all steps."""
        index = bisect_right(self._step_starts, start) - 1
        return index if index >= 0 and start < self.steps[index].end else -1

    def task_step(self, task: int) -> int:
        """Return the number of the step that launched a task, -1 for none."""
        launcher = self.task_launchers[task]
        kind, index = ("op", launcher) if launcher >= 0 else ("task", task)
        return self.step_at(self.table.events[kind].starts[index] - self.table.first)  # type: ignore[index]

    @property
    def on_device(self) -> bool:
        """Whether the profile has tasks of a device."""
        return len(self.table.events["task"]) > 0


def join(table: ProfileTable, code: GeneratedCode, sources: dict[str, str] | None = None) -> JoinedProfile:
    """Return the joined profile. `sources` are the user's files, whose texts agree with the trace."""
    return _Join(table, code, EagerLines(table, sources or {})).result()


class _Join:
    def __init__(self, table: ProfileTable, code: GeneratedCode, eager: EagerLines) -> None:
        self._table = table
        self._code = code
        self._eager = eager
        self._ops = table.events["op"]
        self._places: list[Place] = []
        self._numbers: dict[Place, int] = {}
        self._calls: list[GraphCall] = []
        self._by_children: dict[tuple[object, ...], tuple[Module | None, str, list[int]]] = {}
        self._eager_tops: list[tuple[int, int]] = []
        """Ops outside every graph with the ops of autograd around them, -1 for none."""
        self._owners = array("i", [-1]) * len(self._ops)
        """The op that stands for each op: a call of a graph, or the outermost op outside the graphs."""
        self._op_places = array("i", [-1]) * len(self._ops)
        self._kinds = [self._kind(name) for name in table.names]

    def result(self) -> JoinedProfile:
        steps = _steps(self._table)
        order = self._sorted_ops()
        self._walk(order)
        regions = {call.sequence: call.region for call in self._calls if call.sequence and not call.backward}
        for call in self._calls:
            if call.backward:
                call.region = regions.get(call.sequence, "")
        for call in self._calls:
            self._place_children(call)
        self._place_eager()
        outermost = bytearray(len(self._ops))
        for op, owner in enumerate(self._owners):
            outermost[op] = owner == op
            if owner >= 0:
                self._op_places[op] = self._op_places[owner]
        task_places, launchers = self._tasks()
        return JoinedProfile(
            self._table, steps, self._places, self._op_places, task_places, launchers, self._calls, order,
            outermost,
        )  # fmt: skip

    # ---- ops

    @staticmethod
    def _kind(name: str) -> str:
        """Return what an op of a name is for the walk: a graph, something around ops, or an op."""
        if name.startswith(GRAPH_CALL):
            return "graph"
        return "around" if _CONTAINER.match(name) else "op"

    def _sorted_ops(self) -> list[int]:
        """Return the ops by thread, by start, outer ones first."""
        starts, lengths = self._ops.starts, self._ops.lengths
        by_thread: dict[int, list[int]] = defaultdict(list)
        for op, thread in enumerate(self._ops.threads):
            by_thread[thread].append(op)
        order: list[int] = []
        for own in by_thread.values():
            own.sort(key=starts.__getitem__)
            equal = [at for at, (op, after) in enumerate(pairwise(own)) if starts[op] == starts[after]]
            if equal and any(lengths[own[at]] < lengths[own[at + 1]] for at in equal):
                own.sort(key=lambda op: (starts[op], -lengths[op]))
            order += own
        return order

    def _walk(self, order: Sequence[int]) -> None:
        """Find the graph calls with the ops right inside them, and the outermost ops outside."""
        ops, kinds, owners = self._ops, self._kinds, self._owners
        starts, lengths, threads, names = ops.starts, ops.lengths, ops.threads, ops.names
        thread, graph_end, owner_end, owner = -1, 0.0, 0.0, -1
        call: GraphCall | None = None
        around: list[tuple[float, int]] = []
        for op in order:
            start = starts[op]
            if threads[op] != thread:
                thread, graph_end, owner_end, around = threads[op], 0.0, 0.0, []
            if start < owner_end:
                kind = kinds[names[op]]
                if kind == "op" or start < graph_end:
                    owners[op] = owner
                    continue
            else:
                kind = kinds[names[op]]
            end = start + lengths[op] - _SLACK_US
            if start < graph_end:
                if call is not None:
                    call.children.append(op)
            else:
                while around and around[-1][0] <= start:
                    around.pop()
                if kind == "around":
                    around.append((end, op))
                    continue
                if kind == "graph":
                    call = self._graph_call(op, around)
                    graph_end, owner_end = end, 0.0
                    continue
                self._eager_tops.append((op, around[-1][1] if around else -1))
            owners[op], owner, owner_end = op, op, end

    def _graph_call(self, op: int, around: Sequence[tuple[float, int]]) -> GraphCall:
        names = [self._table.names[self._ops.names[outer]] for _, outer in around]
        match = _GRAPH_CALL.match(self._table.names[self._ops.names[op]])
        region = next((name.removeprefix(_REGION) for name in reversed(names) if name.startswith(_REGION)), "")
        backward = any(_BACKWARD in name for name in names)
        sequence = next((abs(known) for _, outer in reversed(around) if (known := self._ops.sequences[outer])), 0)
        call = GraphCall(op, match[1] if match else "", "" if backward else region, backward, sequence)
        self._calls.append(call)
        return call

    def _place_children(self, call: GraphCall) -> None:
        names = [self._ops.names[child] for child in call.children]
        signature = (call.key, call.region, call.backward, *names)
        known = self._by_children.get(signature)
        texts = [self._table.names[name] for name in names]
        if known is None:
            call.module, call.reason = self._code.module(call.key, call.region, call.backward, frozenset(texts))
            known = self._by_children[signature] = (call.module, call.reason, self._match(call, texts))
        call.module, call.reason, places = known
        for child, place in zip(call.children, places, strict=True):
            self._op_places[child] = place

    def _match(self, call: GraphCall, texts: Sequence[str]) -> list[int]:
        """Return the places of the ops inside a graph call: its generated module's calls in order."""
        graph, phase = call.graph, call.phase
        texts = list(map(code_name, texts))
        matched = match_calls(call.module, texts) if call.module is not None else [None] * len(texts)
        places = []
        for text, found in zip(texts, matched, strict=True):
            if isinstance(found, CodeCall):
                place = call.place_of(found)
            elif call.module is not None and text not in call.module.by_op:
                place = Place("library", text, graph, phase, reason=NOT_PLANNED)
            else:
                kind: PlaceKind = "kernel" if text.startswith("triton_") else "library"
                place = Place(kind, text, graph, phase, reason=call.reason or found or OTHER_ORDER)
            places.append(self._number(place))
        return places

    def _place_eager(self) -> None:
        cache: dict[tuple[int, ev.Location | None, str], int] = {}
        names = self._ops.names
        for op, around in self._eager_tops:
            location, reason = self._eager.place(op, around)
            key = (names[op], location, reason)
            number = cache.get(key)
            if number is None:
                name = self._table.names[names[op]]
                number = cache[key] = self._number(Place("eager op", name, location=location, reason=reason))
            self._op_places[op] = number

    def _number(self, place: Place) -> int:
        number = self._numbers.get(place)
        if number is None:
            number = self._numbers[place] = len(self._places)
            self._places.append(place)
        return number

    # ---- tasks of the device

    def _tasks(self) -> tuple[array[int], array[int]]:
        """Return the place of each task, and the op that launched it."""
        tasks = self._table.events["task"]
        places, launchers = array("i", [-1]) * len(tasks), array("i", [-1]) * len(tasks)
        wanted = set(tasks.ids)
        op_of = {external: op for op, external in enumerate(self._ops.ids) if external and external in wanted}
        graph_of = {call.op: call for call in self._calls}
        annotated: list[int] = []
        replayed: dict[tuple[int, int], list[int]] = defaultdict(list)
        unknown = -1
        by_launch = self._launch_ops(op_of)
        for task, external in enumerate(tasks.ids):
            op = op_of.get(external, -1) if external else -1
            if op < 0:
                op = by_launch.get(tasks.correlations[task], -1)
            launchers[task] = op
            if op >= 0 and (place := self._op_places[op]) >= 0:
                places[task] = place
            elif op in graph_of:
                replayed[op, tasks.correlations[task]].append(task)
            else:
                annotated.append(task)
        around = self._graphs_around({tasks.correlations[task] for task in annotated})
        for task in annotated:
            if (op := around.get(tasks.correlations[task], -1)) >= 0:
                launchers[task] = op
                replayed[op, tasks.correlations[task]].append(task)
                continue
            if unknown < 0:
                unknown = self._number(Place("eager op", UNKNOWN_OP, reason=NO_LAUNCH))
            places[task] = unknown
        self._place_replays(replayed, graph_of, places)
        return places, launchers

    def _graphs_around(self, correlations: set[int]) -> dict[int, int]:
        """Return the graph call in which each launch is, by correlation.

        With `record_shapes=True` a graph call is an annotation, and External ids are those of the op around it.
        """
        launches, ops = self._table.events["launch"], self._ops
        calls = sorted((ops.threads[call.op], ops.starts[call.op], call.op) for call in self._calls)
        found: dict[int, int] = {}
        for correlation, thread, start in zip(launches.correlations, launches.threads, launches.starts, strict=True):
            if correlation not in correlations or not calls:
                continue
            owner, _, op = calls[bisect_right(calls, (thread, start, len(ops))) - 1]
            if owner == thread and ops.starts[op] <= start < ops.starts[op] + ops.lengths[op]:
                found[correlation] = op
        return found

    def _launch_ops(self, op_of: dict[int, int]) -> dict[int, int]:
        """Return the op of each launch whose task has no External id, by correlation."""
        events = self._table.events["task"]
        missing = {
            correlation
            for correlation, external in zip(events.correlations, events.ids, strict=True)
            if correlation and external not in op_of
        }
        if not missing:
            return {}
        launches = self._table.events["launch"]
        return {
            correlation: op_of[external]
            for correlation, external in zip(launches.correlations, launches.ids, strict=True)
            if correlation in missing and external in op_of
        }

    def _place_replays(
        self, replayed: dict[tuple[int, int], list[int]], graph_of: dict[int, GraphCall], places: array[int]
    ) -> None:
        """Place the tasks of replayed CUDA graphs: the calls of the generated module, in the recorded order."""
        tasks = self._table.events["task"]
        used: dict[int, int] = defaultdict(int)
        known: dict[tuple[object, ...], list[int]] = {}
        for (op, _), own in sorted(replayed.items(), key=lambda item: tasks.starts[item[1][0]]):
            call = graph_of[op]
            own.sort(key=tasks.starts.__getitem__)
            names = [self._table.names[tasks.names[task]] for task in own]
            signature = (call.key, call.region, used[op], *names)
            numbers = known.get(signature)
            if numbers is None:
                numbers = known[signature] = self._replay(call, names, used[op])
            used[op] += sum(1 for name in names if not _HELPER.search(name))
            for task, number in zip(own, numbers, strict=True):
                places[task] = number

    def _replay(self, call: GraphCall, names: Sequence[str], before: int) -> list[int]:
        if call.module is None:
            call.module, call.reason = self._code.module(call.key, call.region, call.backward, frozenset(names))
        found = match_replay(call.module, names) if call.module and not before else [None] * len(names)
        numbers = []
        for name, code_call in zip(names, found, strict=True):
            if isinstance(code_call, CodeCall):
                place = call.place_of(code_call)
            else:
                place = Place("library", name, call.graph, call.phase, reason=call.reason or REPLAYED)
            numbers.append(self._number(place))
        return numbers


UNKNOWN_OP = "unknown"
NO_LAUNCH = "its launch is not in the profile"
NO_LINE = "the trace names no line of its ops"
NOT_PLANNED = "it is not in the generated code: a copy of inputs, or an op inside a kernel's launch"
OTHER_ORDER = "the ops that ran are not in the order of the generated code"
REPLAYED = "a replayed CUDA graph does not tell which library call started it"


def match_calls(module: Module, ops: Sequence[str]) -> list[CodeCall | str | None]:
    """Return the call of each op that ran in a graph; None if it is unknown.

    If all calls ran in their order, each op is a call. Otherwise, only a kernel that the module calls once is certain.
    """
    ran = [op for op in ops if op in module.by_op]
    visible = set(ran)
    planned = [call for call in module.calls if call.op in visible or not _is_hidden(call)]
    generated = [op for op in ran if module.by_op[op][0].kernel.generated]
    made = order_of_run(planned, generated, attrgetter("op"))
    if made is not None and ran == [call.op for call in made]:
        calls = iter(made)
        return [next(calls) if op in module.by_op else None for op in ops]
    return [module.by_op[op][0] if op in module.by_op and len(module.by_op[op]) == 1 else None for op in ops]


def _is_hidden(call: CodeCall) -> bool:
    """Return whether the profiler records no op for a call: a C++ kernel, unless its profiling is enabled."""
    return call.kernel.language == "cpp"


def match_replay(module: Module, names: Sequence[str]) -> list[CodeCall | None]:
    """Return the call of each task of a replayed CUDA graph.

    Generated kernels have their names. Library calls between two of them are certain if there is one, or as many as
    tasks.
    """
    planned = [call for call in module.calls if not _is_hidden(call)]
    generated = {call.op for call in planned if call.kernel.generated}
    calls = order_of_run(planned, [name for name in names if name in generated], attrgetter("op"))
    if calls is None:
        return [None] * len(names)
    found: list[CodeCall | None] = [None] * len(names)
    at = 0
    for first, last in _segments(names, generated):
        own: list[CodeCall] = []
        while at < len(calls) and not calls[at].kernel.generated:
            own.append(calls[at])
            at += 1
        tasks = [index for index in range(first, last) if not _HELPER.search(names[index])]
        for index in range(first, last):
            if len(own) == 1:
                found[index] = own[0]
            elif len(own) == len(tasks) and own:
                earlier = sum(task <= index for task in tasks)
                found[index] = own[max(0, earlier - 1)]
        if last < len(names):
            found[last] = calls[at]
            at += 1
    return found


def _segments(names: Sequence[str], generated: set[str]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of tasks between generated kernels."""
    first = 0
    for index, name in enumerate(names):
        if name in generated:
            yield first, index
            first = index + 1
    yield first, len(names)


def _steps(table: ProfileTable) -> list[Step]:
    """Return the steps that the profiler's schedule or the program marked; else the whole profile is one."""
    steps = []
    for index in range(len(table.events["annotation"])):
        known = table.interval("annotation", index)
        if _STEP.match(known.name):
            steps.append(Step(known.name, known.start, known.end))
    if steps:
        return sorted(steps, key=lambda step: step.start)
    ends = [
        start + length - table.first
        for events in (table.events["op"], table.events["task"])
        for start, length in zip(events.starts, events.lengths, strict=True)
    ]
    return [Step("profile", 0.0, max(ends, default=0.0))]
