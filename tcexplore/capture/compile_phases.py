"""Time of calls that compile: torch's compile phases, running compiled graphs, and Dynamo's work on frames."""

from __future__ import annotations

import functools
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

from tcexplore.capture.dynamo.eager_ops import GRAPH_PREFIX, INSTALL_GRAPH, hide_from_dynamo
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.events import Phase, PhaseTimed
from tcexplore.torch_text.dynamo_names import PHASE_OF

FACT = "compile phases"
ACTIVITY_FACT = "time of compiling calls outside the compile phases"

Activity = Literal["span", "frames", "running"]
"""Part of a call that compiles: inside torch's spans, in Dynamo's frame callback, or running a compiled graph."""

_FRAME_CALLBACK = "torch._dynamo.convert_frame:CatchErrorsWrapper.__call__"
_INDUCTOR_GRAPH = "torch._inductor.output_code:CompiledFxGraph.__call__"

Function = Callable[..., Any]


class _Span(NamedTuple):
    name: str
    began_us: float
    graph: str | None
    phase: Phase | None


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of the child processes that it waited for."""
    return sum(os.times()[:4])


class ActivityTimer:
    """Seconds per activity, without the time of other activities nested in it.

    A graph may still compile something during its first run, and Dynamo's callback consists mostly of torch's spans:
    that time counts as `span`.
    """

    def __init__(self) -> None:
        self.seconds: dict[Activity, float] = defaultdict(float)
        self._open: list[Activity] = []
        self._since = 0.0
        self._cpu_before = 0.0

    def begin_call(self) -> None:
        """Reset the measurements before a call."""
        self.seconds.clear()
        self._cpu_before = _cpu_seconds()

    def call_seconds(self) -> dict[str, float]:
        """Return the seconds that `CallMade` has for a call that compiles, by field."""
        cpu = _cpu_seconds() - self._cpu_before
        return {
            "graph_seconds": self.seconds["running"], "frame_seconds": self.seconds["frames"], "cpu_seconds": cpu,
        }  # fmt: skip

    def enter(self, activity: Activity) -> None:
        """Begin an activity."""
        self._count()
        self._open.append(activity)

    def leave(self, activity: Activity) -> None:
        """End the innermost such activity and everything that began inside it."""
        self._count()
        while activity in self._open and self._open.pop() != activity:
            pass

    def _count(self) -> None:
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now

    def timed(self, activity: Activity, function: Function) -> Function:
        """Wrap `function` so that its time counts as `activity`; Dynamo does not trace the wrapper."""

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self.enter(activity)
            try:
                return function(*args, **kwargs)
            finally:
                self.leave(activity)

        return hide_from_dynamo(wrapper)

    @contextmanager
    def watching(self, hooks: Hooks) -> Iterator[None]:
        """Time Dynamo's callback and new compiled graphs inside this context.

        Everything is restored at the end, because a wrapper would add its cost to each later call.
        """
        timer_hooks = Hooks(hooks.emit)
        replaced: list[tuple[dict[str, Any], str, Any, Any]] = []

        def installed(_result: Any, output_graph: Any, name: str, value: Any) -> None:
            scope = output_graph.global_scope
            if name.startswith(GRAPH_PREFIX) and scope.get(name) is value:
                scope[name] = self.timed("running", value)
                replaced.append((scope, name, value, scope[name]))

        timer_hooks.wrap(ACTIVITY_FACT, _FRAME_CALLBACK, functools.partial(self.timed, "frames"))
        timer_hooks.wrap(ACTIVITY_FACT, _INDUCTOR_GRAPH, functools.partial(self.timed, "running"))
        timer_hooks.watch(ACTIVITY_FACT, INSTALL_GRAPH, after=installed)
        try:
            yield
        finally:
            timer_hooks.remove()
            for scope, name, value, wrapper in replaced:
                if scope.get(name) is wrapper:
                    scope[name] = value


class PhaseReader:
    """Reader of torch's `chromium_event` log: a stack of open spans per thread gives the current phase."""

    def __init__(
        self, hooks: Hooks, enter: Callable[[Phase, str | None], None], arrived: float | None, timer: ActivityTimer
    ) -> None:
        self._hooks = hooks
        self._enter = enter
        self._arrived = arrived
        self._timer = timer
        self._open: dict[Any, list[_Span]] = defaultdict(list)
        self._phase: Phase | None = None

    def read(self, event: TraceEvent) -> None:
        """Process a begin or end event; ignore instants and an end without a begin."""
        span = json.loads(event.payload or "{}")
        stack = self._open[span.get("tid")]
        kind, name = span.get("ph"), span.get("name", "")
        if kind == "B":
            self._begin(stack, _Span(name, span["ts"], event.graph, PHASE_OF.get(name)))
        elif kind == "E" and any(begun.name == name for begun in stack):
            self._end(stack, name, span["ts"])

    def _begin(self, stack: list[_Span], span: _Span) -> None:
        parent = stack[-1] if stack else None
        if parent is None:
            self._timer.enter("span")
        graph = span.graph or (parent.graph if parent else None)
        phase = span.phase or (parent.phase if parent else None)
        stack.append(span._replace(graph=graph, phase=phase))
        self._enter_phase(phase, graph)

    def _end(self, stack: list[_Span], name: str, ended_us: float) -> None:
        while True:
            span = stack.pop()
            seconds = (ended_us - span.began_us) / 1e6
            at = None if self._arrived is None else span.began_us / 1e6 - self._arrived
            self._hooks.emit(PhaseTimed(name=span.name, seconds=seconds, graph=span.graph, depth=len(stack), at=at))
            if span.name == name:
                break
        if stack:
            self._enter_phase(stack[-1].phase, stack[-1].graph)
        else:
            self._phase = None
            self._timer.leave("span")

    def _enter_phase(self, phase: Phase | None, graph: str | None) -> None:
        if phase is not None and phase != self._phase:
            self._phase = phase
            self._enter(phase, graph)


def install(
    hooks: Hooks,
    trace: StructuredTrace,
    enter: Callable[[Phase, str | None], None],
    arrived: float | None = None,
    timer: ActivityTimer | None = None,
) -> None:
    """Call `enter(phase, graph)` when a phase begins, and emit each finished span as a `PhaseTimed`.

    `arrived` is the `time.time()` at which the job arrived: torch's spans use that clock. `timer` counts the spans.
    """
    reader = PhaseReader(hooks, enter, arrived, timer or ActivityTimer())
    trace.subscribe(FACT, "chromium_event", reader.read)
