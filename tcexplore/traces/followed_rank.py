"""One rank of a job that is running: its figures, the compile under way, and what is ready to be compared."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tcexplore.events.rank_events import RankRow, RanksCompared
from tcexplore.traces.incomplete_ranks import RankEnd
from tcexplore.traces.process_stacks import ProcessStack
from tcexplore.traces.rank_comparison import compare_prints
from tcexplore.traces.rank_counts import RankCounts
from tcexplore.traces.rank_prints import RankPrint
from tcexplore.traces.record_index import BadRecordError
from tcexplore.traces.span_records import SpanRecords
from tcexplore.traces.trace_context import TraceContext
from tcexplore.traces.trace_job import TraceProcess

QUIET_S = 3.0
"""Seconds without a record after which a compile that only some ranks made counts as a difference."""

STILL_RUNNING = "The job is running: the verdict covers what all ranks have compiled so far."


@dataclass
class FollowedRank:
    """Reads the records of one process as they arrive."""

    process: TraceProcess
    records: RankPrint = field(init=False)
    counts: RankCounts = field(default_factory=RankCounts)
    spans: SpanRecords = field(default_factory=SpanRecords)
    grown: float = 0.0
    """Time at which its last record arrived, as a timestamp."""
    stack: ProcessStack | None = None
    """What the process does since its last record, if that is known."""
    over: bool = False
    """Whether the process has ended."""
    _next: int = 0

    def __post_init__(self) -> None:
        self.records = RankPrint(self.process)
        self._context = TraceContext(self.process.index, lambda _: None)

    @property
    def end(self) -> int:
        """Number of complete records; the last one may be half written."""
        index = self.process.index
        return max(0, len(index) - index.is_cut())

    def update(self) -> None:
        """Read the new records."""
        index, end = self.process.index, self.end
        if end <= self._next:
            return
        self.grown, self.stack = time.time(), None
        for number in index.numbers(frozenset({"chromium_event"}), self._next):
            if number < end:
                try:
                    self.spans.read(self._context, index.record(number))
                except BadRecordError:
                    continue
        self.records.read(self.counts, self._next, end)
        self._next = end

    def row(self) -> RankRow:
        """Return the figures, and what is under way."""
        spans, phase = self.spans, self.spans.phase
        self.counts.phase, self.counts.phase_graph = phase or "", (spans.graph or "") if phase else ""
        row = self.counts.row(self.process, None)
        if self.over:
            return row
        under_way = spans.innermost if phase else None
        if under_way is None:
            stack = self.stack or ProcessStack(None, "", None)
            return replace(row, last_record=self.grown, place=stack.place, call=stack.call, waits=stack.waits)
        name = f"{under_way.name} {under_way.kernel}".strip()
        place = self.records.user_line(self.counts.phase_graph)
        return replace(row, span=name, span_began=under_way.began_us / 1e6, place=place, last_record=self.grown)


def rows_of(ranks: Mapping[int, FollowedRank]) -> tuple[RankRow, ...]:
    """Return the figures of all ranks; hosts are named if their traces lie in several folders."""
    several = len({rank.process.source.folder for rank in ranks.values()}) > 1
    rows = [(rank.row(), rank.process.source.folder if several else None) for rank in ranks.values()]
    return tuple(replace(row, host=host) for row, host in rows)


def _common_beginning(prints: Sequence[RankPrint]) -> list[RankPrint]:
    """Return what all ranks have of the compiles that they began in the same order."""
    graphs: set[str] = {""}
    for ids in zip(*(records.graphs for records in prints), strict=False):
        if len(set(ids)) > 1:
            break
        graphs.add(ids[0])
    common = {key for key in set.intersection(*(set(records.items) for records in prints)) if key.graph in graphs}
    return [
        replace(records, items={key: item for key, item in records.items.items() if key in common})
        for records in prints
    ]


def compare_running(
    ranks: Mapping[int, FollowedRank], problems: Sequence[str], *, over: bool = False,
    ends: Mapping[int, RankEnd] = MappingProxyType({}), in_turns: bool = False,
) -> RanksCompared:  # fmt: skip
    """Return the comparison of ranks of which some may be ahead of others; `ends` are reasons why some ended early.

    A rank that lacks a record may still write it: only records that all ranks have are compared, until no rank compiles
    and none has written for `QUIET_S`, or the job is `over`.
    """
    prints = [rank.records for rank in ranks.values()]
    idle = all(rank.spans.phase is None for rank in ranks.values())
    quiet = idle and time.time() - max((rank.grown for rank in ranks.values()), default=0.0) >= QUIET_S
    partial = not over and not quiet
    if partial and prints:
        prints = _common_beginning(prints)
    notes = [*problems, *([STILL_RUNNING] if partial else [])]
    compared = replace(
        compare_prints(prints, rows_of(ranks), notes, ended=over, ends=ends, in_turns=in_turns), partial=partial
    )
    divergence = compared.divergence
    if divergence is not None and divergence.kind == "missing rank" and partial:
        return replace(compared, divergence=None)
    return compared
