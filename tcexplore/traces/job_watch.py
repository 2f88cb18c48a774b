"""What the processes of a running job do now: their progress, and the stacks of those that make none."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from tcexplore.events.rank_events import RanksCompared
from tcexplore.traces.collective_records import CollectiveWatch, told_apart
from tcexplore.traces.followed_trace import FollowedRank
from tcexplore.traces.hangs import WAIT_S, find_hang
from tcexplore.traces.process_stacks import FIRST_S, StackWatch, holds_open
from tcexplore.traces.process_states import ProgressWatch
from tcexplore.traces.trace_job import TraceJob

_MOST_STACKS = 4
"""Stacks that are read at a time: a job may have many ranks, and each read takes about 50 ms."""

_AGAIN_S = 5.0
"""Seconds between two reads of a rank that works while others wait for it."""

_SECOND_LOOK_S, _ANSWER_S = 1.1, 3.2
"""Seconds between the two measurements of a report: enough for the share of a core, and for an answer of torch.

torch looks for requests once in a second, so two answers are at least `STILL_S` apart.
"""


class JobWatch:
    """Watches the processes of this machine."""

    def __init__(self) -> None:
        self._stacks = StackWatch()
        self._collectives = CollectiveWatch()

    @property
    def note(self) -> str:
        """Why there are no stacks; empty if there is no reason."""
        return self._stacks.note

    def update(self, ranks: Mapping[int, FollowedRank], most: int = _MOST_STACKS, *, again: bool = False) -> bool:
        """Measure the progress of the ranks, and read what some of them do; return whether any stack was read.

        `again` asks for their collectives now, also if they were asked a moment ago.
        """
        alive = {number: rank for number, rank in ranks.items() if not rank.over}
        for rank in alive.values():
            process = rank.process
            if rank.progress is None and holds_open(process.pid, process.source.path or ""):
                rank.progress = ProgressWatch(process.pid)
            if rank.progress is not None:
                rank.progress.update()
                if rank.spans.phase is None and time.time() - rank.grown >= FIRST_S:
                    rank.collective = self._collectives.update(process.pid, rank.records.sources, again=again)
        pending = {number: rank.collective for number, rank in alive.items() if rank.collective is not None}
        for number, collective in told_apart(pending).items():
            alive[number].collective = collective
        read = list(islice(self._due(alive), most))
        for rank in read:
            process = rank.process
            rank.stack = self._stacks.read(process.pid, process.source.path or "", rank.records.sources)
        return bool(read)

    def look_twice(self, ranks: Mapping[int, FollowedRank]) -> None:
        """Measure as often as it takes to tell what the ranks do now, and read all stacks."""
        self.update(ranks, 0)
        asked = any(self._collectives.may_be_asked(rank.process.pid) for rank in ranks.values())
        time.sleep(_ANSWER_S if asked else _SECOND_LOOK_S)
        self.update(ranks, len(ranks), again=asked)
        if self._collectives.is_unsure:
            time.sleep(_ANSWER_S)
            self.update(ranks, 0)

    def _due(self, ranks: Mapping[int, FollowedRank]) -> Iterator[FollowedRank]:
        """Yield the ranks whose stack is to be read now."""
        now = time.time()
        others_wait = any(
            rank.progress is not None and rank.progress.state in ("waits", "stopped")
            and now - max(rank.grown, rank.progress.since or 0.0) >= WAIT_S
            for rank in ranks.values()
        )  # fmt: skip
        for rank in ranks.values():
            state = rank.progress.state if rank.progress is not None else None
            last = rank.grown
            if rank.progress is not None and state in ("waits", "stopped"):
                last = max(last, rank.progress.since or 0.0)
            elif rank.spans.phase is not None:
                continue  # torch records what it does
            elif state == "runs" and others_wait:
                last = max(last, now // _AGAIN_S * _AGAIN_S - WAIT_S)
            if self._stacks.due(rank.process.pid, last):
                yield rank


def with_processes(comparison: RanksCompared, job: TraceJob) -> RanksCompared:
    """Return the comparison with what the processes of a job do that still runs on this machine."""
    ranks = {process.number: FollowedRank(process) for process in job.ranks if process.source.path}
    if not any(holds_open(rank.process.pid, rank.process.source.path or "") for rank in ranks.values()):
        return comparison
    watch = JobWatch()
    for rank in ranks.values():
        rank.update()
    watch.look_twice(ranks)
    known = {number: rank.row() for number, rank in ranks.items()}
    rows = tuple(
        replace(
            row, state=now.state, since=now.since, stack=now.stack, call=now.call, place=now.place, waits=now.waits,
            span=now.span, span_began=now.span_began,
        )
        if (now := known.get(row.rank)) is not None
        else row
        for row in comparison.rows
    )  # fmt: skip
    notes = (*comparison.notes, *filter(None, [watch.note]))
    return replace(comparison, rows=rows, notes=notes, hang=find_hang(rows))
