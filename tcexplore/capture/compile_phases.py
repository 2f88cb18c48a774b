"""Compile phases, from the begin and end events that torch logs of itself (`chromium_event`)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from tcexplore.capture.call_clock import SPAN, CallClock
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.events import PhaseTimed

FACT = "compile phases"

PHASE_OF = {
    "dynamo": "dynamo",
    "entire_frame_compile": "dynamo",
    "backend_compile": "dynamo",
    "create_aot_dispatcher_function": "aot",
    "inductor_compile": "inductor",
    "fx_codegen_and_compile": "inductor",
    "async_compile.wait": "compiler",
    "compile_file": "compiler",
    "entire_backward_compile": "backward",
}
"""torch's span names and the phases they open; other spans belong to the phase around them."""


class _Span(NamedTuple):
    name: str
    began_us: float
    graph: str | None
    phase: str | None


class Phases:
    """Turns torch's spans into phases: one stack of open spans per thread."""

    def __init__(
        self, hooks: Hooks, enter: Callable[[str, str | None], None], arrived: float | None, clock: CallClock
    ) -> None:
        self._hooks = hooks
        self._enter = enter
        self._arrived = arrived
        self._clock = clock
        self._open: dict[Any, list[_Span]] = defaultdict(list)
        self._shown: str | None = None

    def take(self, event: TraceEvent) -> None:
        """One begin or end event; an end without a begin, and instants, are ignored."""
        span = json.loads(event.payload or "{}")
        stack = self._open[span.get("tid")]
        kind, name = span.get("ph"), span.get("name", "")
        if kind == "B":
            self._begin(stack, _Span(name, span["ts"], event.graph, PHASE_OF.get(name)))
        elif kind == "E" and any(begun.name == name for begun in stack):
            self._end(stack, name, span["ts"])

    def _begin(self, stack: list[_Span], span: _Span) -> None:
        around = stack[-1] if stack else None
        if around is None:
            self._clock.enter(SPAN)
        graph = span.graph or (around.graph if around else None)
        phase = span.phase or (around.phase if around else None)
        stack.append(span._replace(graph=graph, phase=phase))
        self._show(phase, graph)

    def _end(self, stack: list[_Span], name: str, ended_us: float) -> None:
        while True:
            span = stack.pop()
            seconds = (ended_us - span.began_us) / 1e6
            at = None if self._arrived is None else span.began_us / 1e6 - self._arrived
            self._hooks.emit(PhaseTimed(name=span.name, seconds=seconds, graph=span.graph, depth=len(stack), at=at))
            if span.name == name:
                break
        if stack:
            self._show(stack[-1].phase, stack[-1].graph)
        else:
            self._shown = None
            self._clock.leave(SPAN)

    def _show(self, phase: str | None, graph: str | None) -> None:
        if phase is not None and phase != self._shown:
            self._shown = phase
            self._enter(phase, graph)


def install(
    hooks: Hooks,
    trace: StructuredTrace,
    enter: Callable[[str, str | None], None],
    arrived: float | None = None,
    clock: CallClock | None = None,
) -> None:
    """Report phases as they begin through `enter(phase, graph)`, and each finished span as a `PhaseTimed`. `arrived` is
    when the job did, as `time.time()` says it: torch's spans go by that clock. `clock` learns when torch is in one."""
    trace.subscribe(FACT, "chromium_event", Phases(hooks, enter, arrived, clock or CallClock()).take)
