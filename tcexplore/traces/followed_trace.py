"""The trace files of a job that is running: new files, new records, files that begin again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tcexplore.traces.followed_rank import FollowedRank
from tcexplore.traces.record_index import RecordIndex
from tcexplore.traces.trace_inputs import MOST_FILES, TraceInput, by_rank
from tcexplore.traces.trace_job import TraceJob, TraceProcess, group_jobs, read_processes, shortened

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
        for path in trace_files(self.paths):
            if path in self._ignored:
                continue
            try:
                if self._is_changed(path):
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
