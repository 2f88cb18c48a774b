"""Attempts of torch to trace a frame that it gave up, with the reason and the user's line of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tcexplore import events as ev
from tcexplore.torch_text.restart_text import TENSORIFY, explain_restart, restart_kind
from tcexplore.traces.record_index import Record
from tcexplore.traces.trace_context import TraceContext


def restart_reasons(metrics: Mapping[str, Any]) -> list[str]:
    """Return torch's reasons in the figures of a compile."""
    reasons = metrics.get("restart_reasons")
    return [ev.clean(str(reason)) for reason in reasons] if isinstance(reasons, list) else []


class RestartRecords:
    """Keeps the attempts of each compile until its figures give the reasons."""

    def __init__(self) -> None:
        self._attempts: dict[str, int] = defaultdict(int)
        """The last attempt by compile id."""
        self._emitted: dict[str, int] = defaultdict(int)
        """The attempts that were emitted: records of the backward still have the number of the last one."""
        self._given_up: dict[str, Sequence[ev.FxNode]] = {}
        """Nodes of the last graph that was given up, by compile id."""

    def observe(self, context: TraceContext, record: Record) -> None:
        """Note the attempt of a record, before the record itself is read."""
        graph = record.graph
        if graph and record.attempt > self._attempts[graph]:
            self._attempts[graph] = record.attempt
            if nodes := context.graphs.get(graph):
                self._given_up[graph] = nodes

    def finish_compile(self, context: TraceContext, graph: str, metrics: Mapping[str, Any]) -> None:
        """Emit the attempts of a compile that is over."""
        reasons = restart_reasons(metrics)
        count = max(self._attempts[graph], len(reasons)) - self._emitted[graph]
        if count <= 0:
            return
        self._emitted[graph] += count
        reasons = reasons or [""]
        for number, reason in enumerate(reasons):
            repeated = max(0, count - len(reasons)) if number == 0 else 0  # torch names each reason once
            context.emit(self._restart(context, graph, reason, 1 + repeated))
        self._given_up.pop(graph, None)

    def finish(self, context: TraceContext) -> None:
        """Emit the attempts of compiles whose ends the trace does not hold."""
        for graph in list(self._attempts):
            self.finish_compile(context, graph, {})

    def _restart(self, context: TraceContext, graph: str, reason: str, count: int) -> ev.CompileRestarted:
        kind = restart_kind(reason) if reason else ""
        place = context.break_lines.get((graph, kind))
        if place is None and kind == TENSORIFY:
            place = _float_reader(self._given_up.get(graph, ()))
        start = context.starts.get(graph)
        if place is None and start is not None and start.frame is not None:
            own = start.frame
            place = context.sources.place(own.file, own.line, own.function) or start.caller
        text = explain_restart(reason) if reason else "The trace does not hold the reason."
        return ev.CompileRestarted(
            graph=graph, kind=kind, reason=text, location=place, code=context.sources.code(place), count=count
        )


def _float_reader(nodes: Sequence[ev.FxNode]) -> ev.Location | None:
    """Return the line of the first op that reads a float argument."""
    floats = {node.name for node in nodes if node.op == "call_method" and node.target == "item"}
    return next((node.location for node in nodes if floats & set(node.inputs) and node.location), None)
