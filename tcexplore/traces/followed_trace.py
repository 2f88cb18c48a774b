"""A job that is running: each rank's figures, the compile under way, and what is ready to be compared."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from tcexplore.events import Location
from tcexplore.events.rank_events import Hang, RankRow, RanksCompared
from tcexplore.traces.collective_records import PendingCollective
from tcexplore.traces.hangs import find_hang
from tcexplore.traces.process_stacks import ProcessStack
from tcexplore.traces.process_states import ProgressWatch
from tcexplore.traces.rank_comparison import RankEnd, compare_fingerprints
from tcexplore.traces.rank_fingerprint import RankCounts, RankFingerprint
from tcexplore.traces.record_index import BadRecordError, RecordIndex
from tcexplore.traces.span_records import SPAN, SpanRecords
from tcexplore.traces.trace_context import TraceContext
from tcexplore.traces.trace_inputs import MOST_FILES, TraceInput, by_rank
from tcexplore.traces.trace_job import TraceJob, TraceProcess, group_jobs, read_processes, shortened

MOST_FOLLOWED = 400_000_000
"""Bytes of all files that are copied into memory; `tcexplore open` maps those of a job that has ended."""

CHUNK = 1 << 24
"""Bytes of one file that are read at a time, so that a large file does not delay the others."""

_MOST_RECORDS_WITHOUT_RANK = 500
"""Records of a process after which its rank is no longer expected to become known."""


@dataclass(slots=True)
class _GrowingFile:
    """One file. Its content is copied: a mapped file that is truncated would end this process."""

    path: str
    inode: int
    data: bytearray = field(default_factory=bytearray)
    index: RecordIndex = field(init=False)
    processes: dict[int, TraceProcess] = field(default_factory=dict)
    """By process id."""

    def __post_init__(self) -> None:
        self.index = RecordIndex(self.data)

    @property
    def is_foreign(self) -> bool:
        """Whether the file is no trace."""
        return b"\n" in self.data and not len(self.index) and self.index.foreign_start()

    def read(self) -> bool:
        """Read what was added; return whether there may be more."""
        with open(self.path, "rb") as file:
            file.seek(len(self.data))
            chunk = file.read(CHUNK)
        self.data += chunk
        self.index.finish()
        return len(chunk) == CHUNK

    def sort(self) -> None:
        """Learn the processes of the new records."""
        unknown = any(
            known.rank is None and len(self.index) < _MOST_RECORDS_WITHOUT_RANK for known in self.processes.values()
        )
        if unknown or len(self.processes) < len(set(self.index.pids.values())):
            source = TraceInput(self.path, lambda: self.data, self.path)
            for process in read_processes(source, self.index):
                known = self.processes.setdefault(process.pid, process)
                known.rank, known.shared = process.rank, process.shared


class FollowedTrace:
    """The newest job that writes to some folders or files."""

    def __init__(self, paths: Sequence[str], ignored: Iterable[str] = (), job: int | None = None) -> None:
        """`ignored` are files of earlier jobs; `job` is the number of an older job to follow, from 1."""
        self.paths = tuple(os.path.abspath(os.path.expanduser(path)) for path in paths)
        self._ignored = frozenset(ignored)
        self._number = job
        self._files: dict[str, _GrowingFile] = {}
        self._unreadable: dict[str, str] = {}
        self._notes: list[str] = []
        self._gone: set[str] = set()
        self.ranks: dict[int, FollowedRank] = {}
        """What is known of the processes of the job, by rank."""
        self.grown = 0.0
        """Time at which a file last grew, as a timestamp."""

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders to watch."""
        return tuple(sorted({path if os.path.isdir(path) else os.path.dirname(path) for path in self.paths}))

    @property
    def problems(self) -> list[str]:
        """Sentences about files that cannot be read, and files that began again."""
        foreign = [
            f"{known.path} holds no records of TORCH_TRACE" for known in self._files.values() if known.is_foreign
        ]
        most = [f"only the first {MOST_FILES:,} files are read"] if len(self._files) >= MOST_FILES else []
        return [*most, *shortened([*self._unreadable.values(), *foreign]), *self._notes]

    def update(self) -> bool:
        """Read what the job wrote since the last call; return whether there may be more."""
        more = grown = False
        paths = trace_files(self.paths)
        self._note_gone(paths)
        for path in paths:
            if path in self._ignored:
                continue
            try:
                if self._is_changed(path):
                    if sum(len(known.data) for known in self._files.values()) > MOST_FOLLOWED:
                        self._unreadable[path] = f"{path}: more than {MOST_FOLLOWED / 1e6:g} MB are not followed"
                        continue
                    more |= self._files[path].read()
                    self._files[path].sort()
                    grown = True
                self._unreadable.pop(path, None)
            except OSError as error:
                self._unreadable[path] = f"{path}: {(error.strerror or str(error)).lower()}"
        if grown:
            self._read_ranks()
            self.grown = time.time()  # not before the ranks' own times: who waits for silence compares both
        return more

    def _note_gone(self, paths: Sequence[str]) -> None:
        """Note each file that is gone, once."""
        gone = self._files.keys() - set(paths)
        self._notes += (f"{path} is gone: what was read of it stays." for path in sorted(gone - self._gone))
        self._gone = gone

    def _is_changed(self, path: str) -> bool:
        """Return whether a file has grown; begin again with one that was truncated or replaced."""
        status = os.stat(path)
        known = self._files.get(path)
        if known is not None and (status.st_size < len(known.data) or status.st_ino != known.inode):
            verb = "truncated" if status.st_ino == known.inode else "replaced"
            self._notes.append(f"{path} was {verb} while it was followed: it is read from its beginning.")
            known = None
        if known is None:
            self._files[path] = known = _GrowingFile(path, status.st_ino)
        return status.st_size > len(known.data)

    def _read_ranks(self) -> None:
        job = self.job
        if job is None:
            return
        ranks: dict[int, FollowedRank] = {}
        for process in job.ranks:
            known = self.ranks.get(process.number)
            same = known is not None and known.process is process
            ranks[process.number] = known if known is not None and same else FollowedRank(process)
            ranks[process.number].update()
        self.ranks = ranks

    @property
    def job(self) -> TraceJob | None:
        """The job that is followed; None before its first record."""
        processes = [process for file in self._files.values() for process in file.processes.values()]
        jobs = group_jobs(processes)
        if not jobs:
            return None
        return jobs[min(self._number or len(jobs), len(jobs)) - 1]


def trace_files(paths: Iterable[str]) -> list[str]:
    """Return the trace files that exist now; a folder may still be empty or missing."""
    files: list[str] = []
    for path in paths:
        try:
            if os.path.isdir(path):
                names = [entry.name for entry in os.scandir(path) if entry.name.endswith(".log")]
                files += (os.path.join(path, name) for name in sorted(names, key=by_rank))
            elif os.path.isfile(path):
                files.append(path)
        except OSError:
            continue
    return files[:MOST_FILES]


QUIET_S = 3.0
"""Seconds without a record after which all records of the ranks count, also those that only some ranks have."""

LATE_S = 30.0
"""Seconds without a record after which a rank that compiled less than others no longer counts as late."""

STILL_RUNNING = "The job is running: the verdict covers what all ranks have compiled so far."


@dataclass
class FollowedRank:
    """Reads the records of one process as they arrive."""

    process: TraceProcess
    records: RankFingerprint = field(init=False)
    counts: RankCounts = field(default_factory=RankCounts)
    spans: SpanRecords = field(default_factory=SpanRecords)
    grown: float = 0.0
    """Time at which its last record arrived, as a timestamp."""
    stack: ProcessStack | None = None
    """What the process does since its last record, if that is known."""
    over: bool = False
    """Whether the process has ended."""
    error: str = ""
    """The exception that ended it, if its output names one."""
    error_place: Location | None = None
    """The user's line of that exception."""
    progress: ProgressWatch | None = None
    """None for a process of another machine, or before it is known."""
    collective: PendingCollective | None = None
    """What it waits for on a GPU, by torch's record of its collectives."""
    _next: int = 0

    def __post_init__(self) -> None:
        self.records = RankFingerprint(self.process)
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
        self.grown, self.stack, self.collective = written_at(self.process.source.path), None, None
        for number in index.numbers(frozenset({SPAN}), self._next):
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
        progress = self.progress
        if self.over:
            return replace(row, state="ended", since=self.grown, error=self.error, place=self.error_place)
        if progress is not None and progress.state is not None:
            since = max(self.grown, progress.since or 0.0)
            frames = self.stack.frames if self.stack is not None else ()
            row = replace(row, state=progress.state, since=since, stack=frames)
        under_way = spans.innermost if phase else None
        if under_way is None:
            stack = self.stack or ProcessStack(None, "", None)
            if (pending := self.collective) is not None and row.state != "stopped":
                since = max(self.grown, pending.began)
                row = replace(row, state="waits", since=since)
                stack = stack._replace(waits=False, call=pending.name, place=pending.place or stack.place)
            return replace(row, last_record=self.grown, place=stack.place, call=stack.call, waits=stack.waits)
        name = f"{under_way.name} {under_way.kernel}".strip()
        place = self.records.user_line(self.counts.phase_graph)
        return replace(row, span=name, span_began=under_way.began_us / 1e6, place=place, last_record=self.grown)


def written_at(path: str) -> float:
    """Return when a file was last written; who follows it may have come later."""
    try:
        return min(time.time(), os.stat(path).st_mtime)
    except OSError:
        return time.time()


def rows_of(ranks: Mapping[int, FollowedRank]) -> tuple[RankRow, ...]:
    """Return the figures of all ranks; hosts are named if their traces lie in several folders."""
    several = len({rank.process.source.folder for rank in ranks.values()}) > 1
    rows = [(rank.row(), rank.process.source.folder if several else None) for rank in ranks.values()]
    return tuple(replace(row, host=host) for row, host in rows)


def _common_beginning(fingerprints: Sequence[RankFingerprint]) -> list[RankFingerprint]:
    """Return what all ranks have of the compiles that they began in the same order.

    A compile that one rank traced again is left out with those after it: the other may have to do so, too.
    """
    graphs: set[str] = {""}
    for ids in zip(*(records.graphs for records in fingerprints), strict=False):
        if len({(graph, records.attempts.get(graph, 0)) for graph, records in zip(ids, fingerprints, strict=True)}) > 1:
            break
        graphs.add(ids[0])
    common = {key for key in set.intersection(*(set(records.items) for records in fingerprints)) if key.graph in graphs}
    return [records.only(common, growing=True) for records in fingerprints]


def has_late_rank(ranks: Mapping[int, FollowedRank], rows: Sequence[RankRow], hang: Hang | None) -> bool:
    """Return whether a rank that compiled less than others may still compile the same.

    One that works or waits by itself may come to it. It no longer does if it has ended, or if it waits in a collective,
    since the others have passed that one.
    """
    longest = max((rank.records.graphs for rank in ranks.values()), key=len, default=())
    silent = time.time() - max((rank.grown for rank in ranks.values()), default=0.0)
    for row in rows:
        rank = ranks[row.rank]
        graphs = rank.records.graphs
        if rank.over or len(graphs) == len(longest) or graphs != longest[: len(graphs)]:
            continue
        in_collective = row.state == "waits" and bool(row.call)
        if not in_collective and (silent < LATE_S or (hang is not None and row.rank in hang.ranks)):
            return True
    return False


class RanksNow(NamedTuple):
    """What the ranks of a job do at one moment."""

    rows: tuple[RankRow, ...]
    hang: Hang | None
    settled: bool
    """Whether the job is over, or no rank compiles, none has written for `QUIET_S`, and none is late."""


def ranks_now(ranks: Mapping[int, FollowedRank], *, over: bool = False, in_turns: bool = False) -> RanksNow:
    """Return what the ranks do now. None waits for another one if they run `in_turns`."""
    rows = rows_of(ranks)
    hang = None if over or in_turns else find_hang(rows)
    idle = all(rank.spans.phase is None for rank in ranks.values())
    quiet = idle and time.time() - max((rank.grown for rank in ranks.values()), default=0.0) >= QUIET_S
    settled = over or (quiet and (in_turns or not has_late_rank(ranks, rows, hang)))
    return RanksNow(rows, hang, settled)


def compare_running(
    ranks: Mapping[int, FollowedRank], problems: Sequence[str], now: RanksNow, *, over: bool = False,
    ends: Mapping[int, RankEnd] = MappingProxyType({}), in_turns: bool = False,
) -> RanksCompared:  # fmt: skip
    """Return the comparison of ranks of which some may be ahead of others; `ends` are reasons why some ended early.

    A rank that lacks a record may still write it. Only records that all ranks have are compared until the job is
    settled.
    """
    fingerprints = [rank.records for rank in ranks.values()]
    partial = not now.settled
    if partial and fingerprints:
        fingerprints = _common_beginning(fingerprints)
    notes = [*problems, *([STILL_RUNNING] if partial else [])]
    compared = replace(
        compare_fingerprints(fingerprints, now.rows, notes, ended=over, ends=ends, in_turns=in_turns),
        partial=partial,
        hang=now.hang,
    )
    divergence = compared.divergence
    if divergence is not None and divergence.kind == "missing rank" and partial:
        return replace(compared, divergence=None)
    return compared
