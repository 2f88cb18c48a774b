"""The script with which torch itself would show a fault in one of Inductor's graphs."""

from __future__ import annotations

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.events import GraphScript

FACT = "scripts of single graphs"


def install(hooks: Hooks, trace: StructuredTrace) -> None:
    """Emit a `GraphScript` for each graph that Inductor begins to compile."""

    def take(event: TraceEvent) -> None:
        hooks.emit(GraphScript(graph=event.graph or "", source=event.payload or ""))

    trace.subscribe(FACT, "fx_graph_runnable", take)
