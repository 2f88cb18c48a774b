"""Figures of one rank, and what it compiles at the end of its trace."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tcexplore import events as ev
from tcexplore.events.rank_events import RankRow
from tcexplore.traces.inductor_records import CACHE_KINDS
from tcexplore.traces.record_index import BadRecordError, Record
from tcexplore.traces.span_records import SpanRecords
from tcexplore.traces.trace_context import TraceContext
from tcexplore.traces.trace_job import TraceProcess

_LAST_SPANS = 400
"""Records of spans that are read to know what is under way at the end of a trace."""


@dataclass(slots=True)
class RankCounts:
    """Figures of one rank, counted while its records are read."""

    compiles: dict[str, None] = field(default_factory=dict)
    recompiles: set[str] = field(default_factory=set)
    graphs: int = 0
    breaks: int = 0
    break_places: set[tuple[str, ev.Location | None]] = field(default_factory=set)
    """Kind and line of each break."""
    hits: int = 0
    misses: int = 0
    bypasses: int = 0
    seconds: float = 0.0
    phase: str = ""
    phase_graph: str = ""

    def count(self, record: Record) -> None:
        """Count a compared record."""
        if record.graph:
            self.compiles[record.graph] = None
        if record.kind == "dynamo_output_graph":
            self.graphs += 1
        elif record.kind == "dynamo_graph_break_reason":
            self.breaks += 1
        elif record.kind == "recompile_reasons" or (
            record.kind == "dynamo_start" and record.envelope.get("frame_compile_id")
        ):
            self.recompiles.add(record.graph)
        elif record.kind in CACHE_KINDS:
            outcome = CACHE_KINDS[record.kind][1]
            self.hits += outcome == "hit"
            self.misses += outcome == "miss"
            self.bypasses += outcome == "bypass"

    def add_metrics(self, record: Record, facts: dict[str, Any]) -> None:
        """Add the duration of a compile."""
        if record.kind not in ("compilation_metrics", "bwd_compilation_metrics"):
            return
        micros, seconds = facts.get("duration_us"), facts.get("entire_frame_compile_time_s")
        if isinstance(micros, int | float):
            self.seconds += micros / 1e6
        elif isinstance(seconds, int | float):
            self.seconds += seconds

    def row(self, process: TraceProcess, host: str | None) -> RankRow:
        """Return the figures as a row."""
        return RankRow(
            rank=process.number,
            host=host,
            pid=process.pid,
            phase=self.phase,
            graph=self.phase_graph,
            compile_ids=tuple(self.compiles),
            graphs=self.graphs,
            breaks=self.breaks,
            break_places=len(self.break_places),
            recompiles=len(self.recompiles),
            cache_hits=self.hits,
            cache_misses=self.misses,
            cache_bypasses=self.bypasses,
            compile_s=round(self.seconds, 6),
        )


def last_phase(process: TraceProcess) -> tuple[str, str]:
    """Return the phase under way at the end of a trace, and its compile id; empty between compiles."""
    index = process.index
    numbers = deque(index.numbers(frozenset({"chromium_event"})), maxlen=_LAST_SPANS)
    spans, context = SpanRecords(), TraceContext(index, lambda _: None)
    for number in numbers:
        try:
            spans.read(context, index.record(number))
        except BadRecordError:
            continue
    return spans.phase or "", (spans.graph or "") if spans.phase else ""
