"""The cost of each graph break in a warm call: the time from the end of a graph to the start of the next one."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from statistics import fmean
from typing import Any, NamedTuple

from tcexplore.capture.dynamo.eager_ops import (
    GRAPH_PREFIX,
    INSTALL_GRAPH,
    MARK,
    iter_eager_ops,
    profile_events,
    quiet_profiler,
    replaced_graphs,
)
from tcexplore.capture.dynamo.trace_position import traced_frames
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import StackFrame, UserFiles
from tcexplore.events import BreakCost, BreakCosts, Location

FACT = "graph break costs"
MAX_UNITS, MIN_UNITS, MAX_SECONDS = 30, 3, 0.5
"""Bounds on the number of measured units, which depends on the available time."""

CALL_MARK = "tcexplore: compiled call"
"""The name of the profiler range around each call of the compiled program."""

_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)$")

Function = Callable[..., Any]


class BrokenGraph(NamedTuple):
    """A compiled graph, with the breaks around it."""

    scope: dict[str, Any]
    end: Location | None
    """The break that ends the graph, None if it ends in a return."""
    start: Location | None
    """The break after which the graph resumes, None if it begins with its function."""


class GraphRun(NamedTuple):
    """One run of a graph within a call, with its start and end in nanoseconds."""

    graph: BrokenGraph
    start: int
    end: int


class CostedCall(NamedTuple):
    """One call of the compiled program, with its start and end in nanoseconds."""

    start: int
    end: int
    runs: tuple[GraphRun, ...]


_graphs: dict[str, BrokenGraph] | None = None
"""The graphs of this process by name, None until `install`."""

_broken = False
"""Whether any graph broke in this process."""


def install(hooks: Hooks, _trace: StructuredTrace, user_files: UserFiles) -> None:
    """Record for each graph which break ends it, and after which break it resumes."""
    global _graphs, _broken

    def break_logged(*_args: Any, **_kwargs: Any) -> None:
        global _broken
        _broken = True

    def graph_installed(_result: Any, output: Any, name: str, _value: Any) -> None:
        if name.startswith(GRAPH_PREFIX) and _graphs is not None:
            end, start = _break_at_end(output, user_files), _break_at_start(output, user_files)
            _graphs[name] = BrokenGraph(output.global_scope, end, start)

    hooks.watch(FACT, "torch._dynamo.symbolic_convert:InstructionTranslatorBase.log_graph_break", before=break_logged)
    if hooks.watch(FACT, INSTALL_GRAPH, after=graph_installed):
        _graphs, _broken = {}, False


def any_graph_broke() -> bool:
    """Return whether any graph broke in this process."""
    return _broken


def measure_break_costs(unit: Callable[[Function], None], compiled: Function, reset: Callable[[], None]) -> BreakCosts:
    """Run the warm unit of calls `unit(compiled)` repeatedly, and return the mean time at each break.

    Only the faster half of the units counts, because interference only slows units down. Means add up, so no cost
    exceeds the total. Raises `RuntimeError` if this
    torch does not report its graphs, and exceptions of the calls.
    """
    if _graphs is None:
        raise RuntimeError(f"this torch has no {INSTALL_GRAPH}")
    by_total = sorted((_sum_unit(calls) for calls in _units(unit, compiled, reset, _graphs)), key=lambda u: u.total)
    units = by_total[: (len(by_total) + 1) // 2]
    locations = {location for unit_times in units for location in unit_times.at}
    costs = [
        BreakCost(
            location=location,
            us=fmean(unit_times.at.get(location, 0.0) for unit_times in units),
            gaps=round(fmean(unit_times.gaps.get(location, 0) for unit_times in units)),
            ops=ops,
        )
        for location, ops in _ops_at_breaks(locations, unit, compiled, reset, _graphs)
    ]
    return BreakCosts(
        costs=tuple(sorted(costs, key=lambda cost: -cost.us)),
        total_us=fmean(unit_times.total for unit_times in units),
        elsewhere_us=fmean(unit_times.elsewhere for unit_times in units),
        around_us=fmean(unit_times.around for unit_times in units),
        units=len(units),
    )


class _UnitTimes(NamedTuple):
    """The microseconds of one unit, by location."""

    at: dict[Location, float]
    gaps: dict[Location, int]
    """The number of gaps between graphs at each break."""
    elsewhere: float
    """Between two graphs without a known break."""
    around: float
    """Before the first graph and after the last one."""
    total: float


def _sum_unit(calls: Iterable[CostedCall]) -> _UnitTimes:
    at: dict[Location, float] = defaultdict(float)
    gaps: dict[Location, int] = defaultdict(int)
    elsewhere = around = total = 0.0
    for call in calls:
        total += (call.end - call.start) / 1e3
        last: GraphRun | None = None
        for run in (*call.runs, None):
            microseconds = ((run.start if run else call.end) - (last.end if last else call.start)) / 1e3
            location = _break_between(last and last.graph, run and run.graph)
            if location is not None:
                at[location] += microseconds
                gaps[location] += 1
            elif last is None or run is None:
                around += microseconds
            else:
                elsewhere += microseconds
            last = run
    return _UnitTimes(at, gaps, elsewhere, around, total)


def _break_between(first: BrokenGraph | None, second: BrokenGraph | None) -> Location | None:
    return (first.end if first else None) or (second.start if second else None)


def _units(
    unit: Callable[[Function], None], compiled: Function, reset: Callable[[], None], graphs: dict[str, BrokenGraph]
) -> Iterator[list[CostedCall]]:
    runs: list[GraphRun] = []
    calls: list[CostedCall] = []

    def timed_call(*args: Any, **kwargs: Any) -> Any:
        runs.clear()
        start = time.perf_counter_ns()
        result = compiled(*args, **kwargs)
        calls.append(CostedCall(start, time.perf_counter_ns(), tuple(runs)))
        return result

    def time_graph(name: str, original: Function) -> Function:
        def timed_graph(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter_ns()
            result = original(*args, **kwargs)
            runs.append(GraphRun(graphs[name], start, time.perf_counter_ns()))
            return result

        return timed_graph

    with replaced_graphs({name: graph.scope for name, graph in graphs.items()}, time_graph):
        deadline = time.perf_counter() + MAX_SECONDS
        for number in range(MAX_UNITS + 1):
            calls.clear()
            unit(timed_call)
            reset()
            if number:  # the first unit warms up the wrappers
                yield list(calls)
            if number >= MIN_UNITS and time.perf_counter() > deadline:
                return


def _ops_at_breaks(
    locations: set[Location], unit: Callable[[Function], None], compiled: Function, reset: Callable[[], None],
    graphs: dict[str, BrokenGraph],
) -> Iterator[tuple[Location, tuple[tuple[str, int, float], ...]]]:  # fmt: skip
    """Yield the eager ops at each break in the compiled calls of one profiled unit, the longest first.

    The unit may also run a backward, after the last graph of the call.
    """
    from torch.profiler import record_function

    order: list[BrokenGraph] = []

    def marked_call(*args: Any, **kwargs: Any) -> Any:
        with record_function(CALL_MARK):
            return compiled(*args, **kwargs)

    def mark_graph(name: str, original: Function) -> Function:
        def marked(*args: Any, **kwargs: Any) -> Any:
            order.append(graphs[name])
            with record_function(MARK):
                return original(*args, **kwargs)

        return marked

    with quiet_profiler(), replaced_graphs({name: graph.scope for name, graph in graphs.items()}, mark_graph):
        events = profile_events(lambda: unit(marked_call))
    reset()
    starts = sorted(event.time_range.start for event in events if event.name == MARK and _on_cpu(event))
    calls = [event.time_range for event in events if event.name == CALL_MARK and _on_cpu(event)]
    ops_at: dict[Location, dict[str, list[float]]] = {location: defaultdict(list) for location in locations}
    for name, start, us in iter_eager_ops(events):
        if not any(call.start <= start <= call.end for call in calls):
            continue
        before = sum(mark <= start for mark in starts)
        first, second = order[before - 1] if before else None, order[before] if before < len(order) else None
        location = _break_between(first, second)
        if location in ops_at:
            ops_at[location][name].append(us)
    for location, ops in ops_at.items():
        yield location, tuple(sorted(((n, len(us), sum(us)) for n, us in ops.items()), key=lambda op: -op[2]))


def _on_cpu(event: Any) -> bool:
    return str(event.device_type).endswith("CPU")


def _break_at_end(output: Any, user_files: UserFiles) -> Location | None:
    reason = getattr(output, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    return next(reversed(traced_frames(reason.user_stack, user_files)), None)


def _break_at_start(output: Any, user_files: UserFiles) -> Location | None:
    code = output.root_tx.f_code
    resumed = _RESUMED.match(code.co_name)
    if resumed is None:
        return None
    frame = StackFrame(code.co_filename, int(resumed[2]), resumed[1])
    return next(iter(traced_frames([frame], user_files)), None)
