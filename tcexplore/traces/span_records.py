"""torch's spans in a trace: the time of each phase, and the phase under way."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, NamedTuple

from tcexplore import events as ev
from tcexplore.torch_text.dynamo_names import PHASE_OF
from tcexplore.traces.record_index import Record
from tcexplore.traces.trace_context import TraceContext

SPAN = "chromium_event"
"""The kind of record."""

MOST_SPANS = 20_000
"""Spans that are kept; after them, only spans of at least `LONG_US` are."""

LONG_US = 10_000.0


_PHASE = re.compile(rb'"ph": "(\w)",\s*"cat": "[^"\\]*",\s*(?:"\w+": (?:\d+|"\w*"),?\s*)*\}\s*$')
"""The end of the JSON of an event, which tells its kind without the rest."""

_PHASE_BYTES = 200


class _Span(NamedTuple):
    name: str
    began_us: float
    graph: str | None
    phase: ev.Phase | None
    kernel: str
    """Kernel that the span works on, if torch names it."""


class SpanRecords:
    """torch's spans (`chromium_event`): the time of each phase, from a stack of open spans for each thread."""

    def __init__(self) -> None:
        self._open: dict[Any, list[_Span]] = defaultdict(list)
        self._count = 0
        self.phase: ev.Phase | None = None
        """The phase under way; None between compiles."""
        self.graph: str | None = None
        self.phase_began: float | None = None
        """Start of the phase as a timestamp."""

    @property
    def innermost(self) -> _Span | None:
        """The span that began last of those under way."""
        return max((stack[-1] for stack in self._open.values() if stack), key=lambda s: s.began_us, default=None)

    def read(self, context: TraceContext, record: Record) -> None:
        """Process a begin or an end; ignore other events and an end without a begin."""
        kind = _PHASE.search(context.index.payload_end(record.number, _PHASE_BYTES))
        if kind is not None and kind[1] not in (b"B", b"E"):
            return  # such as a cache lookup, with all of its key
        span = context.json(record)
        if not isinstance(span, dict) or not isinstance(at := span.get("ts"), int | float):
            return
        if context.began is None:
            context.began = at / 1e6
        stack, kind, name = self._open[span.get("tid")], span.get("ph"), ev.clean(str(span.get("name") or ""))
        if kind == "B":
            parent = stack[-1] if stack else None
            graph = record.graph or (parent.graph if parent else None)
            phase = PHASE_OF.get(name) or (parent.phase if parent else None)
            stack.append(_Span(name, at, graph, phase, _kernel(span.get("args"))))
            self._enter(stack[-1].phase, graph, at)
        elif kind == "E" and any(begun.name == name for begun in stack):
            self._end(context, stack, name, at)

    def _end(self, context: TraceContext, stack: list[_Span], name: str, ended_us: float) -> None:
        while stack:
            span = stack.pop()
            lasted = ended_us - span.began_us
            self._count += 1
            if self._count <= MOST_SPANS or lasted >= LONG_US:
                at = span.began_us / 1e6 - (context.began or 0.0)
                context.emit(
                    ev.PhaseTimed(name=span.name, seconds=lasted / 1e6, graph=span.graph, depth=len(stack), at=at)
                )
            if span.name == name:
                break
        outer = stack[-1] if stack else None
        self._enter(outer.phase if outer else None, outer.graph if outer else None, ended_us)

    def _enter(self, phase: ev.Phase | None, graph: str | None, at_us: float) -> None:
        if (phase, graph) != (self.phase, self.graph):
            self.phase, self.graph, self.phase_began = phase, graph, at_us / 1e6


def _kernel(args: Any) -> str:
    kernel = args.get("kernel_name") if isinstance(args, dict) else None
    return ev.clean(kernel) if isinstance(kernel, str) else ""
