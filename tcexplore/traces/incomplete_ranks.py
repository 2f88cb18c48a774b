"""Ranks whose traces lack their end or their beginning: a job that was killed, a file that is cut off or rotated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tcexplore.events import Location
from tcexplore.events.rank_events import Divergence, DivergenceSide, RankRow, name_ranks
from tcexplore.traces.rank_prints import RankPrint


class RankEnd(NamedTuple):
    """End of a process before the others."""

    reason: str
    location: Location | None = None
    """The user's line that raised an exception."""


class IncompleteRanks:
    """What can be compared of ranks whose traces lack a part, and the ranks to name if nothing else differs."""

    def __init__(
        self, prints: Sequence[RankPrint], rows: Sequence[RankRow], ends: Mapping[int, RankEnd], *, ended: bool
    ) -> None:
        """`ended` if the job is over; `ends` are the reasons why processes ended before the others, by rank."""
        self._prints = prints
        self._ends = ends
        # Without its beginning, a trace lacks the names that later records refer to by number.
        self._whole = [records for records in prints if not records.process.index.foreign_start()] or list(prints)
        self._fake = {records.rank: records.ended_early for records in prints if records.ended_early}
        """Reasons that ranks of a fake process group record; such ranks end inside no compile."""
        self._unfinished: dict[int, RankRow] = {}
        """Ranks that ended inside a compile."""
        if ended and len(prints) > 1 and not self._fake:
            self._unfinished = {row.rank: row for row in rows if row.phase and row.graph}
        self._early = _early_divergence(prints, ends) if ends else None

    def comparable(self) -> list[RankPrint]:
        """Return the records that can be compared."""
        compared = _first_compiles(self._whole, self._ends) if self._ends else self._whole
        return _comparable_prints(compared, self._unfinished) if self._unfinished else compared

    def divergence(self, difference: Divergence | None) -> Divergence | None:
        """Return the difference of the comparable records, if any, or else the ranks that are incomplete."""
        if difference is None or difference.kind == "missing rank":
            difference = _truncated_divergence(self._prints, self._whole) or difference
        if difference or self._early or not self._unfinished:
            return difference or self._early
        return _unfinished_divergence(self._prints, self._unfinished)

    def reasons(self, divergence: Divergence | None) -> tuple[str, ...]:
        """Return a sentence for each reason why ranks ended early, unless the divergence gives it."""
        ranks: dict[str, list[int]] = defaultdict(list)
        reasons = dict(self._fake)
        if divergence is None or divergence is not self._early:
            reasons |= {rank: end.reason for rank, end in self._ends.items()}
        for rank, reason in reasons.items():
            ranks[reason].append(rank)
        return tuple(f"{name_ranks(numbers).capitalize()} ended early: {reason}" for reason, numbers in ranks.items())


def _comparable_prints(prints: Sequence[RankPrint], unfinished: Mapping[int, RankRow]) -> list[RankPrint]:
    """Return what can be compared: compiles that end on all ranks, and records that all ranks have."""
    finished: list[set[str]] = []
    for records in prints:
        row = unfinished.get(records.rank)
        graphs = records.graphs
        end = graphs.index(row.graph) if row is not None and row.graph in graphs else len(graphs)
        finished.append({"", *graphs[:end]})
    whole = set.intersection(*finished)
    common = set.intersection(*(set(records.items) for records in prints))
    return [
        replace(
            records, items={key: item for key, item in records.items.items() if key.graph in whole or key in common}
        )
        for records in prints
    ]


def _unfinished_divergence(prints: Sequence[RankPrint], unfinished: Mapping[int, RankRow]) -> Divergence | None:
    """Return the ranks that stopped first; None if all stopped in the same compile."""
    order = {graph: number for records in prints for number, graph in enumerate(records.graphs)}
    first = min(unfinished.values(), key=lambda row: order.get(row.graph, 0))
    ranks = tuple(sorted(rank for rank, row in unfinished.items() if row.graph == first.graph))
    others = tuple(records.rank for records in prints if records.rank not in ranks)
    if not others:
        return None
    mine = next(records for records in prints if records.rank == ranks[0])
    line = mine.user_line(first.graph)
    return Divergence(
        kind="unfinished rank",
        ranks=ranks,
        compile_id=first.graph,
        location=line,
        detail=f"the trace of {name_ranks(ranks)} ends inside this compile; up to there, all ranks agree",
        sides=(
            DivergenceSide(ranks=ranks, text=f"ends in the phase {first.phase}", location=line),
            DivergenceSide(ranks=others, text="continues", location=line),
        ),
    )


def _first_compiles(prints: Sequence[RankPrint], ends: Mapping[int, RankEnd]) -> list[RankPrint]:
    """Return as many compiles of each rank as those have that ended before the others."""
    most = min((len(records.graphs) for records in prints if records.rank in ends), default=None)
    kept = [{"", *records.graphs[:most]} for records in prints]
    return [
        replace(records, items={key: item for key, item in records.items.items() if key.graph in graphs})
        for records, graphs in zip(prints, kept, strict=True)
    ]


def _early_divergence(prints: Sequence[RankPrint], ends: Mapping[int, RankEnd]) -> Divergence | None:
    """Return the ranks whose processes ended before the others, with the reason."""
    ranks = tuple(sorted(ends))
    others = tuple(records.rank for records in prints if records.rank not in ends)
    mine = next((records for records in prints if records.rank in ends), None)
    if mine is None or not others:
        return None
    last, end = mine.graphs[-1] if mine.graphs else "", ends[mine.rank]
    line = end.location or (mine.user_line(last) if last else None)
    compiled = f"; its last compile is {last}" if last else ""
    return Divergence(
        kind="unfinished rank",
        ranks=ranks,
        location=line,
        detail=f"{name_ranks(ranks)} ended before the others; up to there, all ranks agree",
        sides=(
            DivergenceSide(ranks=ranks, text=f"{end.reason}{compiled}", location=line),
            DivergenceSide(ranks=others, text="ran on"),
        ),
    )


def _truncated_divergence(prints: Sequence[RankPrint], whole: Sequence[RankPrint]) -> Divergence | None:
    """Return the ranks whose traces lack their beginning, so that they cannot be compared; None if there are none."""
    ranks = tuple(records.rank for records in prints if records not in whole)
    if not ranks:
        return None
    others = tuple(records.rank for records in whole)
    line = next((line for graph in whole[0].graphs if (line := whole[0].user_line(graph)) is not None), None)
    return Divergence(
        kind="missing rank",
        ranks=ranks,
        location=line,
        detail=f"the beginning of the trace of {name_ranks(ranks)} is missing; it cannot be compared",
        sides=(
            DivergenceSide(ranks=ranks, text="the file was truncated or rotated"),
            DivergenceSide(ranks=others, text="complete; its first compile", location=line),
        ),
    )
