"""Processes of trace files, and the jobs that they belong to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tcexplore.traces.record_index import BadRecordError, RecordIndex
from tcexplore.traces.trace_content import InputError
from tcexplore.traces.trace_inputs import Inputs, TraceInput

MOST_APART_S = 600.0
"""Maximum seconds between the first records of two ranks of one job."""

MOST_MESSAGES = 10

MOST_RANKS = 100_000
"""Ranks of a job; a greater number in a trace is not one."""

_RANK_SEARCH = 4_000
"""Records that are searched for a rank if the file's name has none."""


class NothingReadError(Exception):
    """No path holds a readable record; `problems` are sentences for the user."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(slots=True)
class TraceProcess:
    """One process of a trace."""

    source: TraceInput
    index: RecordIndex
    pid: int
    rank: int | None
    """None if the process belongs to no distributed run."""
    start: float
    """Local time of its first record, as a timestamp."""
    end: float
    shared: bool = False
    """Whether other processes wrote to the same file."""

    @property
    def number(self) -> int:
        """Rank, 0 for a process without one."""
        return self.rank or 0

    def reopened(self) -> TraceProcess:
        """Return the process with an index of its own, which no other thread extends."""
        index = RecordIndex(self.source.open())
        index.finish()
        return replace(self, index=index)


@dataclass(slots=True)
class TraceJob:
    """Processes that ran together, sorted by rank."""

    processes: list[TraceProcess]

    @property
    def start(self) -> float:
        """Local time of the first record."""
        return min(process.start for process in self.processes)

    @property
    def ranks(self) -> list[TraceProcess]:
        """One process per rank, the one with the most records; a process without a rank counts only if none has one."""
        best: dict[int, TraceProcess] = {}
        ranked = [process for process in self.processes if process.rank is not None]
        for process in ranked or self.processes:
            key = process.number if ranked else len(best)
            if key not in best or len(process.index) > len(best[key].index):
                best[key] = process
        return [best[key] for key in sorted(best)]

    def process(self, rank: int | None) -> TraceProcess:
        """Return the process of a rank, the first one if there is no such rank."""
        ranks = self.ranks
        return next((process for process in ranks if process.number == rank), ranks[0])

    def describe(self) -> str:
        """Return the job's start, its ranks and its size in one line."""
        began = datetime.fromtimestamp(self.start, UTC).strftime("%m-%d %H:%M:%S") if self.start else "?"
        size = sum(process.index.size for process in self.processes) / 1e6
        pids = ", ".join(str(process.pid) for process in self.ranks[:4])
        ranks = f"{len(self.ranks)} ranks" if len(self.ranks) > 1 else "1 process"
        return f"{began}, {ranks}, pid {pids}{', …' if len(self.ranks) > 4 else ''}, {size:.1f} MB"


@dataclass(slots=True)
class OpenedTrace:
    """The jobs behind some paths, oldest first, and messages about what is unreadable."""

    jobs: list[TraceJob] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unread: int = 0
    """Files that exist but were not read: there is no verdict on ranks."""


FIRST_BYTES = 1 << 18
"""Bytes of each file that are indexed before the first screen: its process, its rank, its start."""


def open_inputs(inputs: Inputs, *, whole: bool = True) -> OpenedTrace:
    """Sort the processes of all files into jobs. Raise `NothingReadError` if there is no record.

    Unless `whole`, only the beginning of each file is indexed; `finish_index` indexes the rest.
    """
    opened = OpenedTrace(problems=list(inputs.problems), unread=inputs.unread)
    processes: list[TraceProcess] = []
    for source in inputs.files:
        try:
            index = RecordIndex(source.open())
            if whole:
                index.finish()
            else:
                index.extend(FIRST_BYTES)
        except InputError as error:
            opened.problems.append(str(error))
            opened.unread += 1
            continue
        if not len(index):
            reason = "is empty" if not index.size else "holds no records of TORCH_TRACE"
            opened.problems.append(f"{source.name} {reason}")
            continue
        processes += read_processes(source, index)
        opened.problems += index_problems(source, index) if whole else []
    if not processes:
        raise NothingReadError(opened.problems or ["no trace files were given"])
    opened.jobs = group_jobs(processes)
    opened.problems = shortened(opened.problems)
    return opened


def shortened(problems: Sequence[str]) -> list[str]:
    """Return the first messages, and how many more there are: thousands of files may have the same problem."""
    more = len(problems) - MOST_MESSAGES
    return [*problems[:MOST_MESSAGES], *([f"{more:,} more files have such problems"] if more > 0 else [])]


def finish_index(job: TraceJob) -> list[str]:
    """Index the files of a job to their ends; return messages about what is unreadable."""
    problems: list[str] = []
    for process in list(job.processes):
        process.index.finish()
        problems += index_problems(process.source, process.index)
        for other in read_processes(process.source, process.index):
            if other.pid != process.pid and all(other.pid != known.pid for known in job.processes):
                job.processes.append(other)
                process.shared = other.shared = True
    job.processes.sort(key=lambda process: (process.number, process.start))
    return shortened(problems)


def index_problems(source: TraceInput, index: RecordIndex) -> list[str]:
    """Return messages about a file that is damaged at one of its ends."""
    problems: list[str] = []
    if index.foreign_start():
        problems.append(f"{source.name} begins in the middle of a record: it was truncated or rotated")
    if index.is_cut():
        problems.append(f"{source.name}: its last record is incomplete; the others are read")
    return problems


def read_processes(source: TraceInput, index: RecordIndex) -> Iterable[TraceProcess]:
    """Yield the processes that wrote to the indexed part of a file."""
    year = _year(source)
    pids = list(dict.fromkeys(index.pids.values()))
    for pid in pids:
        first = next(number for number, known in index.pids.items() if known == pid)
        rank = source.named_rank if source.named_rank is not None else _rank(index, first)
        start = index.seconds(first, year)
        yield TraceProcess(source, index, pid, rank, start, max(start, index.last_seconds(year)), shared=len(pids) > 1)


def _year(source: TraceInput) -> int:
    """Return the year in which a file was written: records have none."""
    try:
        stamp = os.path.getmtime(source.path) if source.path else 0.0
    except OSError:
        stamp = 0.0
    return (datetime.fromtimestamp(stamp) if stamp else datetime.now()).astimezone().year


def _rank(index: RecordIndex, first: int) -> int | None:
    """Return the rank in the first record that has one."""
    for number in range(first, min(len(index), first + _RANK_SEARCH)):
        try:
            rank = index.record(number).envelope.get("rank")
        except BadRecordError:
            continue
        if isinstance(rank, int) and 0 <= rank < MOST_RANKS:
            return rank
    return None


def group_jobs(processes: Iterable[TraceProcess]) -> list[TraceJob]:
    """Sort processes into jobs by their starts and ranks: a second process of one rank belongs to another job."""
    jobs: list[TraceJob] = []
    for process in sorted(processes, key=lambda process: process.start):
        job = jobs[-1] if jobs else None
        if job is not None and _belongs(process, job):
            job.processes.append(process)
        else:
            jobs.append(TraceJob([process]))
    for job in jobs:
        job.processes.sort(key=lambda process: (process.number, process.start))
    return jobs


def _belongs(process: TraceProcess, job: TraceJob) -> bool:
    latest = max(other.end for other in job.processes)
    if process.rank is None:
        return process.start <= latest
    taken = {other.rank for other in job.processes}
    return process.rank not in taken and process.start - job.start <= max(MOST_APART_S, latest - job.start)
