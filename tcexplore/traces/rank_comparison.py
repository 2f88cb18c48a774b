"""All ranks of a job compared: figures, groups that agree, and the first difference with its cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from types import MappingProxyType

from tcexplore.events.rank_events import Divergence, DivergenceSide, RankRow, RanksCompared
from tcexplore.traces.environment_differences import Difference, stable_variables
from tcexplore.traces.incomplete_ranks import IncompleteRanks, RankEnd
from tcexplore.traces.rank_counts import RankCounts, last_phase
from tcexplore.traces.rank_differences import Digests, first_difference
from tcexplore.traces.rank_prints import CacheTimes, RankPrint, RecordKey
from tcexplore.traces.trace_inputs import MOST_FILES
from tcexplore.traces.trace_job import TraceJob

_SKEW_S = 0.05
"""Offset in seconds from which on it is mentioned."""


def compare_ranks(job: TraceJob, problems: Iterable[str] = (), *, in_turns: bool = False) -> RanksCompared:
    """Return the comparison of a job's ranks."""
    processes = job.ranks
    hosts = {process.source.folder for process in processes}
    prints: list[RankPrint] = []
    rows: list[RankRow] = []
    for process in processes:
        counts, rank_print = RankCounts(), RankPrint(process)
        rank_print.read(counts)
        counts.phase, counts.phase_graph = last_phase(process)
        prints.append(rank_print)
        rows.append(counts.row(process, process.source.folder if len(hosts) > 1 else None))
    return compare_prints(prints, rows, problems, in_turns=in_turns)


def compare_prints(
    prints: Sequence[RankPrint], rows: Sequence[RankRow], problems: Iterable[str] = (), *, ended: bool = True,
    ends: Mapping[int, RankEnd] = MappingProxyType({}), in_turns: bool = False,
) -> RanksCompared:  # fmt: skip
    """Return the comparison of ranks whose records are read.

    `ended` if the job is over; `ends` are the reasons why processes ended before the others, by rank. The clocks of
    ranks that run `in_turns` cannot be compared.
    """
    notes = list(problems)
    incomplete = IncompleteRanks(prints, rows, ends, ended=ended)
    comparison = _Comparison(incomplete.comparable(), notes)
    groups = comparison.groups
    rows = [
        replace(row, group=groups.get(row.rank, len(set(groups.values()))), offset_s=_offset(prints[0], mine))
        for row, mine in zip(rows, prints, strict=True)
    ]
    notes += [] if in_turns else _skew(rows)
    divergence = incomplete.divergence(comparison.divergence())
    return RanksCompared(
        rows=tuple(rows), divergence=divergence, notes=tuple(notes), ended_early=incomplete.reasons(divergence)
    )


class _Comparison:
    """Groups of ranks that agree, and the difference of each group from the largest."""

    def __init__(self, prints: Sequence[RankPrint], notes: list[str]) -> None:
        self._prints = prints
        self._notes = notes
        self._digests: Digests = {}
        self._times = CacheTimes()
        for mine in prints:
            self._times.add(mine)
        self.groups: dict[int, int] = {}
        """Group number by rank."""
        self._differences: list[tuple[RankPrint, Difference]] = []
        self._reference = prints[0]
        self._compare()

    def _compare(self) -> None:
        """Compare the first rank of each group of equal digests with the first rank of the largest group."""
        self._unequal = self._unequal_records()
        by_digest: dict[object, list[RankPrint]] = defaultdict(list)
        for mine in self._prints:
            by_digest[self._digest(mine)].append(mine)
        groups = sorted(by_digest.values(), key=lambda group: (-len(group), group[0].rank))
        merged: list[list[RankPrint]] = []
        for group in groups:
            # A group may differ only in what is tolerated, such as the constants of a rank's part.
            for known in merged:
                difference = first_difference(group[0], known[0], self._digests, self._times, self._notes)
                if difference is None:
                    known += group
                    break
            else:
                merged.append(group)
        merged.sort(key=lambda group: (-len(group), min(mine.rank for mine in group)))
        self._reference = min(merged[0], key=lambda mine: mine.rank)
        for number, group in enumerate(merged):
            for mine in group:
                self.groups[mine.rank] = number
            if number:
                difference = first_difference(group[0], self._reference, self._digests, self._times, self._notes)
                if difference is not None:
                    self._differences.append((group[0], difference))

    def _digest(self, mine: RankPrint) -> object:
        warm = tuple(graph for graph in mine.graphs if not self._times.is_race(mine, graph))
        normal = tuple(mine.normal(key, self._digests) for key in mine.items if key in self._unequal)
        environment = stable_variables(mine), sorted(mine.versions.items()), sorted(mine.configs.items())
        return tuple(mine.items), normal, warm, repr(environment)

    def _unequal_records(self) -> set[RecordKey]:
        """Return the records whose checksums differ between ranks: only their payloads need to be read."""
        digests: dict[RecordKey, str] = {}
        unequal: set[RecordKey] = set()
        for mine in self._prints:
            for key, item in mine.items.items():
                if digests.setdefault(key, item.digest) != item.digest:
                    unequal.add(key)
        return unequal

    def divergence(self) -> Divergence | None:
        """Return the first difference, or the missing ranks if the others agree on their environment."""
        missing = self._missing()
        if not self._differences:
            return missing
        first = min(self._differences, key=lambda pair: (bool(pair[1].graph), pair[1].order))
        if missing is not None and first[1].kind not in ("library version", "config", "environment"):
            return missing
        return self._named(*first)

    def _missing(self) -> Divergence | None:
        ranks = {mine.rank for mine in self._prints}
        single = len(self._prints) == 1 and self._prints[0].process.rank is None
        if single or len(self._prints) >= MOST_FILES:  # there may be files that are not read
            return None
        size = max([max(ranks) + 1, *(mine.world_size for mine in self._prints)])
        missing = tuple(rank for rank in range(size) if rank not in ranks)
        if not missing:
            return None
        names = ", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else "")
        detail = f"no readable trace of {'rank' if len(missing) == 1 else 'ranks'} {names} of {size}"
        first = self._prints[0]
        line = next((line for graph in first.graphs if (line := first.user_line(graph)) is not None), None)
        sides = (
            DivergenceSide(ranks=missing, text="no readable trace"),
            DivergenceSide(ranks=tuple(sorted(ranks)), text="has a trace; its first compile", location=line),
        )
        return Divergence(kind="missing rank", ranks=missing, location=line, detail=detail, sides=sides)

    def _named(self, mine: RankPrint, difference: Difference) -> Divergence:
        number = self.groups[mine.rank]
        ranks = tuple(sorted(rank for rank, group in self.groups.items() if group == number))
        others = tuple(sorted(rank for rank, group in self.groups.items() if group == 0))
        return Divergence(
            kind=difference.kind,
            ranks=ranks,
            compile_id=difference.graph or None,
            location=difference.my_line or difference.other_line,
            detail=difference.detail,
            sides=(
                DivergenceSide(ranks=ranks, text=difference.mine, location=difference.my_line),
                DivergenceSide(ranks=others, text=difference.other, location=difference.other_line),
            ),
        )


def _offset(first: RankPrint, mine: RankPrint) -> float | None:
    """Return the median delay of a rank's compiles after those of the first rank."""
    delays = [
        mine.seconds(item) - first.seconds(first.items[key])
        for key, item in mine.items.items()
        if key.kind == "dynamo_start" and key in first.items
    ]
    return median(delays) if delays else None


def _skew(rows: Sequence[RankRow]) -> list[str]:
    """Return a note if the files' clocks differ; a common start cannot be told from a late rank."""
    late = [row for row in rows if row.offset_s is not None and abs(row.offset_s) >= _SKEW_S]
    if not late:
        return []
    most = max(late, key=lambda row: abs(row.offset_s or 0.0))
    seconds = most.offset_s or 0.0
    direction = "after" if seconds > 0 else "before"
    return [
        f"Clock skew and lag: rank {most.rank} compiles {abs(seconds):.2f} s {direction} rank {rows[0].rank} "
        "(median of the compiles that both have)."
    ]
