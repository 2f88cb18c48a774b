"""What each graph break costs in a warm call: the time between the graph that it ends and the next one."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

from tcexplore.capture.dynamo.eager_ops import MARK, SYMBOL, outside_ops, profiled, quiet_profiler
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import BreakCost, BreaksCosted, Location

FACT = "what graph breaks cost"
UNITS, LONGEST_S = 30, 0.5
"""So many units are measured, or as many as fit into these seconds; three at least."""

_GRAPH = "__compiled_fn"
_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)$")

Function = Callable[..., Any]


class Graph(NamedTuple):
    """A compiled graph: a global that Dynamo's bytecode calls. `ended` is the break that it ends at, `begun` the one
    behind which it goes on; None where it ends in a return, or begins with its function."""

    scope: dict[str, Any]
    name: str
    ended: Location | None
    begun: Location | None


class Visit(NamedTuple):
    """One run of a graph within a call: when it was entered and left, in nanoseconds."""

    graph: Graph
    entered: int
    left: int


class CostedCall(NamedTuple):
    """One call of the compiled program."""

    began: int
    ended: int
    visits: tuple[Visit, ...]


_graphs: dict[str, Graph] | None = None
"""The graphs of this process by name. None until they are watched."""

_broke = False
"""Whether any of them broke."""


def install(hooks: Hooks, _trace: StructuredTrace, project: UserFiles) -> None:
    """Note for each graph which break ends it, and behind which it goes on."""
    global _graphs, _broke

    def breaks(*_args: Any, **_kwargs: Any) -> None:
        global _broke
        _broke = True

    def installed(_result: Any, output: Any, name: str, _value: Any) -> None:
        if name.startswith(_GRAPH) and _graphs is not None:
            _graphs[name] = Graph(output.global_scope, name, _ended(output, project), _begun(output, project))

    hooks.watch(FACT, "torch._dynamo.symbolic_convert:InstructionTranslatorBase.log_graph_break", before=breaks)
    if hooks.watch(FACT, SYMBOL, after=installed):
        _graphs, _broke = {}, False


def broke() -> bool:
    """Whether any graph broke in this process."""
    return _broke


def measure(unit: Callable[[Function], None], compiled: Function, reset: Callable[[], None]) -> BreaksCosted:
    """Make the warm unit of calls `unit(compiled)` again and again, and take the median of the time at each break over
    the faster half of the units: what else the machine does can only make one longer.

    Raises `RuntimeError` where this torch does not tell its graphs, and what the calls raise.
    """
    if _graphs is None:
        raise RuntimeError(f"this torch has no {SYMBOL}")
    made = sorted((_summed(calls) for calls in _units(unit, compiled, reset, _graphs)), key=lambda found: found.total)
    units = made[: (len(made) + 1) // 2]
    at = {location for found in units for location in found.at}
    costs = [
        BreakCost(
            location=location,
            us=median(found.at.get(location, 0.0) for found in units),
            gaps=round(median(found.gaps.get(location, 0) for found in units)),
            ops=ops,
        )
        for location, ops in _with_ops(at, unit, compiled, reset, _graphs)
    ]
    return BreaksCosted(
        costs=tuple(sorted(costs, key=lambda cost: -cost.us)),
        total_us=median(found.total for found in units),
        elsewhere_us=median(found.elsewhere for found in units),
        around_us=median(found.around for found in units),
        units=len(units),
    )


class _Sums(NamedTuple):
    """Microseconds of one unit, by where they were spent."""

    at: dict[Location, float]
    gaps: dict[Location, int]
    elsewhere: float
    around: float
    total: float


def _summed(calls: Iterable[CostedCall]) -> _Sums:
    at: dict[Location, float] = defaultdict(float)
    gaps: dict[Location, int] = defaultdict(int)
    elsewhere = around = total = 0.0
    for call in calls:
        total += (call.ended - call.began) / 1e3
        left: Visit | None = None
        for entered in (*call.visits, None):
            start = left.left if left else call.began
            spent = ((entered.entered if entered else call.ended) - start) / 1e3
            location = _between(left and left.graph, entered and entered.graph)
            if location is not None:
                at[location] += spent
                gaps[location] += 1
            elif left is None or entered is None:
                around += spent
            else:
                elsewhere += spent
            left = entered
    return _Sums(at, gaps, elsewhere, around, total)


def _between(left: Graph | None, entered: Graph | None) -> Location | None:
    """The break that lies between two graphs."""
    return (left.ended if left else None) or (entered.begun if entered else None)


def _units(
    unit: Callable[[Function], None], compiled: Function, reset: Callable[[], None], graphs: dict[str, Graph]
) -> Iterator[list[CostedCall]]:
    visits: list[Visit] = []
    calls: list[CostedCall] = []

    def one(*args: Any, **kwargs: Any) -> Any:
        visits.clear()
        began = time.perf_counter_ns()
        result = compiled(*args, **kwargs)
        calls.append(CostedCall(began, time.perf_counter_ns(), tuple(visits)))
        return result

    def timing(graph: Graph, original: Function) -> Function:
        def timed(*args: Any, **kwargs: Any) -> Any:
            entered = time.perf_counter_ns()
            result = original(*args, **kwargs)
            visits.append(Visit(graph, entered, time.perf_counter_ns()))
            return result

        return timed

    with _replaced(graphs, timing):
        over = time.perf_counter() + LONGEST_S
        for number in range(UNITS + 1):
            calls.clear()
            unit(one)
            reset()
            if number:  # the first one is warm in all but the marks
                yield list(calls)
            if number >= 3 and time.perf_counter() > over:
                return


def _with_ops(
    at: set[Location], unit: Callable[[Function], None], compiled: Function, reset: Callable[[], None],
    graphs: dict[str, Graph],
) -> Iterator[tuple[Location, tuple[tuple[str, int, float], ...]]]:  # fmt: skip
    """What ran at each break in one profiled unit, the longest first."""
    from torch.profiler import record_function

    order: list[Graph] = []

    def marking(graph: Graph, original: Function) -> Function:
        def marked(*args: Any, **kwargs: Any) -> Any:
            order.append(graph)
            with record_function(MARK):
                return original(*args, **kwargs)

        return marked

    with quiet_profiler(), _replaced(graphs, marking):
        events = profiled(lambda: unit(compiled))
    reset()
    starts = sorted(event.time_range.start for event in events if event.name == MARK and _on_cpu(event))
    found: dict[Location, dict[str, list[float]]] = {location: defaultdict(list) for location in at}
    for name, start, us in outside_ops(events):
        before = sum(mark <= start for mark in starts)
        location = _between(order[before - 1] if before else None, order[before] if before < len(order) else None)
        if location in found:
            found[location][name].append(us)
    for location, ops in found.items():
        yield location, tuple(sorted(((n, len(us), sum(us)) for n, us in ops.items()), key=lambda op: -op[2]))


def _on_cpu(event: Any) -> bool:
    return str(event.device_type).endswith("CPU")


@contextmanager
def _replaced(graphs: dict[str, Graph], make: Callable[[Graph, Function], Function]) -> Iterator[None]:
    """While inside, each graph that still exists is called through what `make` gives, which Dynamo does not look at."""
    there = {name: graph for name, graph in graphs.items() if name in graph.scope}
    originals = {name: graph.scope[name] for name, graph in there.items()}
    try:
        for name, graph in there.items():
            graph.scope[name] = unseen(make(graph, originals[name]))
        yield
    finally:
        for name, graph in there.items():
            graph.scope[name] = originals[name]


def unseen(function: Function) -> Function:
    """Kept from Dynamo by its code where torch has that, which takes no time in a call; else by a wrapper."""
    import torch

    skip = getattr(torch._C._dynamo.eval_frame, "skip_code", None)
    if skip is None:
        undisturbed: Function = torch.compiler.disable(function)
        return undisturbed
    skip(function.__code__)
    return function


def _ended(output: Any, project: UserFiles) -> Location | None:
    reason = getattr(output, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    return next(reversed(project.frames(reason.user_stack)), None)


def _begun(output: Any, project: UserFiles) -> Location | None:
    code = output.root_tx.f_code
    resumed = _RESUMED.match(code.co_name)
    if resumed is None or not project.owns(code.co_filename):
        return None
    return project.location(code.co_filename, int(resumed[2]), resumed[1])
