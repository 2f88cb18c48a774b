"""Ranks whose traces lack their end or their beginning: a job that was killed, a file that is cut off or rotated."""

from __future__ import annotations

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


def unfinished_ranks(rows: Sequence[RankRow]) -> dict[int, RankRow]:
    """Return the ranks that ended inside a compile."""
    return {row.rank: row for row in rows if row.phase and row.graph}


def comparable_prints(prints: Sequence[RankPrint], unfinished: Mapping[int, RankRow]) -> list[RankPrint]:
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


def unfinished_divergence(prints: Sequence[RankPrint], unfinished: Mapping[int, RankRow]) -> Divergence | None:
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


def first_compiles(prints: Sequence[RankPrint], ends: Mapping[int, RankEnd]) -> list[RankPrint]:
    """Return as many compiles of each rank as those have that ended before the others."""
    most = min((len(records.graphs) for records in prints if records.rank in ends), default=None)
    kept = [{"", *records.graphs[:most]} for records in prints]
    return [
        replace(records, items={key: item for key, item in records.items.items() if key.graph in graphs})
        for records, graphs in zip(prints, kept, strict=True)
    ]


def early_divergence(prints: Sequence[RankPrint], ends: Mapping[int, RankEnd]) -> Divergence | None:
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


def truncated_divergence(prints: Sequence[RankPrint], whole: Sequence[RankPrint]) -> Divergence | None:
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
