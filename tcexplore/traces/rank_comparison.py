"""All ranks of a job compared: figures, ranks that ended early, groups that agree, the first difference and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

from tcexplore.events import Location
from tcexplore.events.rank_events import WARNINGS, Divergence, DivergenceSide, RankRow, RanksCompared, name_ranks
from tcexplore.session.communication import names_collective
from tcexplore.traces.environment_differences import Difference, stable_variables
from tcexplore.traces.graph_differences import GRAPH_ENDS
from tcexplore.traces.rank_differences import Digests, first_difference
from tcexplore.traces.rank_fingerprint import CacheTimes, RankCounts, RankFingerprint, RecordKey, last_phase
from tcexplore.traces.trace_inputs import MOST_FILES
from tcexplore.traces.trace_job import TraceJob


class RankEnd(NamedTuple):
    """End of a process before the others."""

    reason: str
    location: Location | None = None
    """The user's line that raised an exception."""


class IncompleteRanks:
    """What can be compared of ranks whose traces lack a part, and the ranks to name if nothing else differs."""

    def __init__(
        self,
        fingerprints: Sequence[RankFingerprint],
        rows: Sequence[RankRow],
        ends: Mapping[int, RankEnd],
        *,
        ended: bool,
    ) -> None:
        """`ended` if the job is over; `ends` are the reasons why processes ended before the others, by rank."""
        self._fingerprints = fingerprints
        self._ends = ends
        # Without its beginning, a trace lacks the names that later records refer to by number.
        self._whole = [records for records in fingerprints if not records.process.index.foreign_start()] or list(
            fingerprints
        )
        self._fake = {records.rank: records.ended_early for records in fingerprints if records.ended_early}
        """Reasons that ranks of a fake process group record; such ranks end inside no compile."""
        self._unfinished: dict[int, RankRow] = {}
        """Ranks that ended inside a compile."""
        if ended and len(fingerprints) > 1 and not self._fake:
            self._unfinished = {row.rank: row for row in rows if row.phase and row.graph}
        self._early = _early_divergence(fingerprints, ends) if ends else None

    def comparable(self) -> list[RankFingerprint]:
        """Return the records that can be compared."""
        compared = _first_compiles(self._whole, self._ends) if self._ends else self._whole
        return _comparable_fingerprints(compared, self._unfinished) if self._unfinished else compared

    def divergence(self, difference: Divergence | None) -> Divergence | None:
        """Return the difference of the comparable records, if any, or else the ranks that are incomplete."""
        if difference is None or difference.kind == "missing rank":
            difference = _truncated_divergence(self._fingerprints, self._whole) or difference
        if difference or self._early or not self._unfinished:
            return difference or self._early
        return _unfinished_divergence(self._fingerprints, self._unfinished)

    def reasons(self, divergence: Divergence | None) -> tuple[str, ...]:
        """Return a sentence for each reason why ranks ended early, unless the divergence gives it."""
        ranks: dict[str, list[int]] = defaultdict(list)
        reasons = dict(self._fake)
        if divergence is None or divergence is not self._early:
            reasons |= {rank: end.reason for rank, end in self._ends.items()}
        for rank, reason in reasons.items():
            ranks[reason].append(rank)
        return tuple(f"{name_ranks(numbers).capitalize()} ended early: {reason}" for reason, numbers in ranks.items())


def _comparable_fingerprints(
    fingerprints: Sequence[RankFingerprint], unfinished: Mapping[int, RankRow]
) -> list[RankFingerprint]:
    """Return what can be compared: compiles that end on all ranks, and records that all ranks have."""
    finished: list[set[str]] = []
    for records in fingerprints:
        row = unfinished.get(records.rank)
        graphs = records.graphs
        end = graphs.index(row.graph) if row is not None and row.graph in graphs else len(graphs)
        finished.append({"", *graphs[:end]})
    whole = set.intersection(*finished)
    common = set.intersection(*(set(records.items) for records in fingerprints))
    whole_keys = ({key for key in records.items if key.graph in whole} for records in fingerprints)
    return [records.only(keys | common) for records, keys in zip(fingerprints, whole_keys, strict=True)]


def _unfinished_divergence(
    fingerprints: Sequence[RankFingerprint], unfinished: Mapping[int, RankRow]
) -> Divergence | None:
    """Return the ranks that stopped first; None if all stopped in the same compile."""
    order = {graph: number for records in fingerprints for number, graph in enumerate(records.graphs)}
    first = min(unfinished.values(), key=lambda row: order.get(row.graph, 0))
    ranks = tuple(sorted(rank for rank, row in unfinished.items() if row.graph == first.graph))
    others = tuple(records.rank for records in fingerprints if records.rank not in ranks)
    if not others:
        return None
    mine = next(records for records in fingerprints if records.rank == ranks[0])
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


def _first_compiles(fingerprints: Sequence[RankFingerprint], ends: Mapping[int, RankEnd]) -> list[RankFingerprint]:
    """Return as many compiles of each rank as those have that ended before the others."""
    most = min((len(records.graphs) for records in fingerprints if records.rank in ends), default=None)
    firsts: list[RankFingerprint] = []
    for records in fingerprints:
        graphs = {"", *records.graphs[:most]}
        firsts.append(records.only({key for key in records.items if key.graph in graphs}))
    return firsts


def _early_divergence(fingerprints: Sequence[RankFingerprint], ends: Mapping[int, RankEnd]) -> Divergence | None:
    """Return the ranks whose processes ended before the others, with the reason."""
    ranks = tuple(sorted(ends))
    others = tuple(records.rank for records in fingerprints if records.rank not in ends)
    mine = next((records for records in fingerprints if records.rank in ends), None)
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


def _truncated_divergence(
    fingerprints: Sequence[RankFingerprint], whole: Sequence[RankFingerprint]
) -> Divergence | None:
    """Return the ranks whose traces lack their beginning, so that they cannot be compared; None if there are none."""
    ranks = tuple(records.rank for records in fingerprints if records not in whole)
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


_SKEW_S = 0.05
"""Offset in seconds from which on it is mentioned."""


def compare_ranks(
    job: TraceJob, problems: Iterable[str] = (), *, in_turns: bool = False, unread: int = 0
) -> RanksCompared:
    """Return the comparison of a job's ranks.

    If some files were `unread`, no rank is called missing: its trace may be in one of them.
    """
    processes = job.ranks
    hosts = {process.source.folder for process in processes}
    fingerprints: list[RankFingerprint] = []
    rows: list[RankRow] = []
    for process in processes:
        counts, fingerprint = RankCounts(), RankFingerprint(process)
        fingerprint.read(counts)
        counts.phase, counts.phase_graph = last_phase(process)
        fingerprints.append(fingerprint)
        rows.append(counts.row(process, process.source.folder if len(hosts) > 1 else None))
    compared = compare_fingerprints(fingerprints, rows, problems, in_turns=in_turns)
    divergence = compared.divergence
    if unread and divergence is not None and divergence.kind == "missing rank":
        divergence = None
    return replace(compared, divergence=divergence, unread=unread)


def compare_fingerprints(
    fingerprints: Sequence[RankFingerprint], rows: Sequence[RankRow], problems: Iterable[str] = (), *,
    ended: bool = True, ends: Mapping[int, RankEnd] = MappingProxyType({}), in_turns: bool = False,
) -> RanksCompared:  # fmt: skip
    """Return the comparison of ranks whose records are read.

    `ended` if the job is over; `ends` are the reasons why processes ended before the others, by rank. The clocks of
    ranks that run `in_turns` cannot be compared.
    """
    notes = list(problems)
    incomplete = IncompleteRanks(fingerprints, rows, ends, ended=ended)
    comparison = _Comparison(incomplete.comparable(), notes)
    groups = comparison.groups
    rows = [
        replace(row, group=groups.get(row.rank, len(set(groups.values()))), offset_s=_offset(fingerprints[0], mine))
        for row, mine in zip(rows, fingerprints, strict=True)
    ]
    notes += [] if in_turns else _skew(rows)
    divergence = incomplete.divergence(comparison.divergence())
    return RanksCompared(
        rows=tuple(rows), divergence=divergence, further=comparison.further(), notes=tuple(notes),
        ended_early=incomplete.reasons(divergence),
    )  # fmt: skip


class _Comparison:
    """Groups of ranks that agree, and the difference of each group from the largest."""

    def __init__(self, fingerprints: Sequence[RankFingerprint], notes: list[str]) -> None:
        self._fingerprints = fingerprints
        self._notes = notes
        self._digests: Digests = {}
        self._times = CacheTimes()
        for mine in fingerprints:
            self._times.add(mine)
        self.groups: dict[int, int] = {}
        """Group number by rank."""
        self._differences: list[tuple[RankFingerprint, Difference]] = []
        self._reference = fingerprints[0]
        self._compare()

    def _compare(self) -> None:
        """Compare the first rank of each group of equal digests with the first rank of the largest group."""
        self._unequal = self._unequal_records()
        by_digest: dict[object, list[RankFingerprint]] = defaultdict(list)
        for mine in self._fingerprints:
            by_digest[self._digest(mine)].append(mine)
        groups = sorted(by_digest.values(), key=lambda group: (-len(group), group[0].rank))
        merged: list[list[RankFingerprint]] = []
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

    def _digest(self, mine: RankFingerprint) -> object:
        warm = tuple(graph for graph in mine.graphs if not self._times.is_race(mine, graph))
        normal = tuple(mine.normal(key, self._digests) for key in mine.items if key in self._unequal)
        environment = stable_variables(mine), sorted(mine.versions.items()), sorted(mine.configs.items())
        return tuple(mine.items), normal, warm, repr(environment)

    def _unequal_records(self) -> set[RecordKey]:
        """Return the records whose checksums differ between ranks: only their payloads need to be read."""
        digests: dict[RecordKey, str] = {}
        unequal: set[RecordKey] = set()
        for mine in self._fingerprints:
            for key, item in mine.items.items():
                if digests.setdefault(key, item.digest) != item.digest:
                    unequal.add(key)
        return unequal

    def divergence(self) -> Divergence | None:
        """Return the first difference, or the missing ranks if the others agree on their environment."""
        missing = self._missing()
        if not self._differences:
            return missing
        mine, first = min(self._differences, key=_urgency)
        if missing is not None and first.kind not in ("library version", "config", "environment"):
            return missing
        return self._named(mine, first)

    def further(self) -> tuple[Divergence, ...]:
        """Return the differences of the other groups, the most urgent first."""
        return tuple(self._named(*pair) for pair in sorted(self._differences, key=_urgency)[1:])

    def _missing(self) -> Divergence | None:
        ranks = {mine.rank for mine in self._fingerprints}
        single = len(self._fingerprints) == 1 and self._fingerprints[0].process.rank is None
        if single or len(self._fingerprints) >= MOST_FILES:  # there may be files that are not read
            return None
        size = max([max(ranks) + 1, *(mine.world_size for mine in self._fingerprints)])
        missing = tuple(rank for rank in range(size) if rank not in ranks)
        if not missing:
            return None
        names = ", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else "")
        detail = f"no readable trace of {'rank' if len(missing) == 1 else 'ranks'} {names} of {size}"
        first = self._fingerprints[0]
        line = next((line for graph in first.graphs if (line := first.user_line(graph)) is not None), None)
        sides = (
            DivergenceSide(ranks=missing, text="no readable trace"),
            DivergenceSide(ranks=tuple(sorted(ranks)), text="has a trace; its first compile", location=line),
        )
        return Divergence(kind="missing rank", ranks=missing, location=line, detail=detail, sides=sides)

    def _named(self, mine: RankFingerprint, difference: Difference) -> Divergence:
        number = self.groups[mine.rank]
        ranks = tuple(sorted(rank for rank, group in self.groups.items() if group == number))
        others = tuple(sorted(rank for rank, group in self.groups.items() if group == 0))
        odd = len(ranks) < len(others)
        communicates = collective_on_one_side(difference, ranks, others) if len(set(self.groups.values())) == 2 else ""
        sides = (
            DivergenceSide(ranks=ranks, text=difference.mine, location=difference.my_line, values=difference.my_values),
            DivergenceSide(
                ranks=others, text=difference.other, location=difference.other_line, values=difference.other_values
            ),
        )
        return Divergence(
            kind=difference.kind,
            ranks=ranks if odd else tuple(sorted(ranks + others)),
            compile_id=difference.graph or None,
            location=difference.condition_line or difference.my_line or difference.other_line,
            condition=difference.condition,
            detail=_detail(difference, ranks if difference.alone == "mine" else others) + communicates,
            sides=sides if odd else tuple(sorted(sides, key=lambda side: side.ranks)),
        )


def _detail(difference: Difference, alone: tuple[int, ...]) -> str:
    """Return what differs; one rank that is alone is named."""
    if not difference.alone or len(alone) > 1:
        return difference.detail
    return difference.detail.replace("one side", name_ranks(alone), 1)


def collective_on_one_side(difference: Difference, ranks: tuple[int, ...], others: tuple[int, ...]) -> str:
    """Return which of two groups of ranks calls a collective where the other calls another op; else an empty text."""
    calls, other_calls = (names_collective(text) for text in (difference.mine, difference.other))
    if difference.kind != "branch" or calls == other_calls or GRAPH_ENDS in (difference.mine, difference.other):
        return ""
    callers = ranks if calls else others
    return f"; only {name_ranks(callers)} {'calls' if len(callers) == 1 else 'call'} a collective there"


def _urgency(pair: tuple[RankFingerprint, Difference]) -> tuple[bool, bool, int]:
    """Return the order of differences: what a correct program may have last, then by their place in the trace."""
    difference = pair[1]
    return difference.kind in WARNINGS, bool(difference.graph), difference.order


def _offset(first: RankFingerprint, mine: RankFingerprint) -> float | None:
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
