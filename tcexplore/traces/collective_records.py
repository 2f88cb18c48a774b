"""Collectives that a running rank has begun and not finished, from torch's flight recorder of NCCL.

A rank that waits for another on a GPU looks busy: CUDA waits in a loop, which takes a whole core, and the line is the
same as in any step that waits for the GPU. torch keeps the newest collectives of a process, and writes them into a file
when something arrives in a pipe; environment variables name both.
"""

from __future__ import annotations

import io
import os
import pickle
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from tcexplore.events import Location, clean
from tcexplore.traces.trace_sources import TraceSources

PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
"""Beginning of the pipe's path; the rank and `.pipe` follow."""

FILES = "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
"""Beginning of the file's path; the rank follows. The second is the older name."""

ONLY_UNFINISHED = "TORCH_INCLUDE_ONLY_ACTIVE"

INTERVAL_S = 5.0
"""Seconds between two requests: so a hang is found within 15 s."""

OVERDUE_S, STILL_S = 5.0, 2.0
"""A collective waits for another rank if it is so old, and if no older one has finished for so long."""

_CLOCK_S = 0.1
"""By how much a file may seem older than it is."""

_PUBLIC_NAMES = {"_all_gather_base": "all_gather_into_tensor", "_reduce_scatter_base": "reduce_scatter_tensor"}

_EQUAL_SIZES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
"""Beginnings of collectives whose input has the same size on all ranks: one of another size is another collective."""

_MOST_BYTES, _MOST_TEXT = 64 << 20, 120


class PendingCollective(NamedTuple):
    """A collective that a rank has begun and not finished."""

    name: str
    """With the size of its input, if that is the same on all ranks."""
    began: float
    """As a timestamp."""
    place: Location | None
    """The user's line; None in a backward, where torch communicates in C++."""
    group: str = ""
    number: int = 0
    """How many collectives of this group the rank has begun, this one included; 0 if unknown."""


def told_apart(pending: Mapping[int, PendingCollective]) -> dict[int, PendingCollective]:
    """Return the collectives of ranks; those of one group that look alike get their numbers if these differ.

    A rank that makes one call too many may wait in the same line as the others, but for the next call.
    """
    alike = {(collective.name, collective.group) for collective in pending.values()}
    numbers = {collective.number for collective in pending.values()}
    if len(alike) > 1 or len(numbers) < 2 or 0 in numbers:
        return dict(pending)
    return {
        rank: each._replace(name=f"{each.name}, collective {each.number:,} of its group")
        for rank, each in pending.items()
    }


class _Answer(NamedTuple):
    """What a process said."""

    at: float = 0.0
    first: PendingCollective | None = None
    since: float = 0.0
    """Time of the first answer with the same collective: none has finished since."""

    def next(self, first: PendingCollective | None, at: float) -> _Answer:
        return _Answer(at, first, self.since if first == self.first else at)

    @property
    def pending(self) -> PendingCollective | None:
        """The collective if it is overdue, and none has finished for a while.

        A GPU may be seconds behind its process: then older collectives still finish.
        """
        return self.first if self.is_overdue and self.at - self.since >= STILL_S else None

    @property
    def is_overdue(self) -> bool:
        return self.first is not None and self.at - self.first.began >= OVERDUE_S


class _Recorder(NamedTuple):
    """Where a process can be asked, and where it answers."""

    pipe: str
    file: str


def recorder_variables(folder: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a job needs to be asked, without those that the user has set."""
    wanted = {PIPE: os.path.join(folder, "nccl_rank_"), ONLY_UNFINISHED: "1"}
    if not any(name in environment for name in FILES):
        wanted[FILES[0]] = os.path.join(folder, "nccl_unfinished_rank_")
    return {name: value for name, value in wanted.items() if name not in environment}


class CollectiveWatch:
    """Asks the processes of this machine what they wait for."""

    def __init__(self) -> None:
        self._recorders: dict[int, _Recorder | None] = {}
        """By process; None if it cannot be asked."""
        self._asked: dict[int, float] = {}
        """When the newest request was made, by process."""
        self._answers: dict[int, _Answer] = {}
        """The newest answers, by process."""

    def may_be_asked(self, pid: int) -> bool:
        return self._recorder(pid) is not None

    @property
    def is_unsure(self) -> bool:
        """Whether a second answer would tell whether an overdue collective waits."""
        return any(answer.is_overdue and answer.pending is None for answer in self._answers.values())

    def update(self, pid: int, sources: TraceSources, *, again: bool = False) -> PendingCollective | None:
        """Return what a process waits for, and ask it again if its newest answer is old, or if that is wanted."""
        recorder = self._recorder(pid)
        if recorder is None:
            return None
        answer = self._answers.get(pid, _Answer())
        with suppress(OSError):
            written = os.stat(recorder.file).st_mtime
            if written > answer.at and written >= self._asked.get(pid, written + 1) - _CLOCK_S:
                answer = self._answers[pid] = answer.next(first_unfinished(_read(recorder.file), sources), written)
        if (again or time.time() - self._asked.get(pid, 0.0) >= INTERVAL_S) and _ask(recorder):
            self._asked[pid] = time.time()
        return answer.pending

    def _recorder(self, pid: int) -> _Recorder | None:
        if pid not in self._recorders:
            self._recorders[pid] = _recorder_of(pid)
        return self._recorders[pid]


def _recorder_of(pid: int) -> _Recorder | None:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = dict(pair.partition("=")[::2] for pair in os.fsdecode(file.read()).split("\0"))
    except OSError:
        return None
    pipe, rank = variables.get(PIPE), variables.get("RANK", "")
    target = next((variables[name] for name in FILES if variables.get(name)), None)
    return _Recorder(f"{pipe}{rank}.pipe", f"{target}{rank}") if pipe and target and rank.isdecimal() else None


def _ask(recorder: _Recorder) -> bool:
    """Ask for the collectives; return False if nobody reads the pipe, as before the first process group is made."""
    try:
        descriptor = os.open(recorder.pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return bool(os.write(descriptor, b"1"))
    except OSError:
        return False
    finally:
        os.close(descriptor)


class _PlainUnpickler(pickle.Unpickler):
    """Reads dictionaries, lists, texts and numbers, and calls nothing: the file may be anyone's."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is no plain value")


def _read(path: str) -> Any:
    """Return the content of the file; None if it is not complete yet, or not torch's."""
    try:
        with open(path, "rb") as file:
            return _PlainUnpickler(io.BytesIO(file.read(_MOST_BYTES))).load()
    except Exception:  # noqa: BLE001  a damaged pickle may raise anything
        return None


def first_unfinished(content: Any, sources: TraceSources) -> PendingCollective | None:
    """Return the oldest collective that has not finished."""
    entries = content.get("entries") if isinstance(content, dict) else None
    pending = [entry for entry in _dictionaries(entries) if entry.get("state") != "completed"]
    first = min(pending, key=_began, default=None)
    if first is None or not _began(first):
        return None
    group, number = first.get("process_group"), first.get("collective_seq_id")
    return PendingCollective(
        _name(first), _began(first), _place(first.get("frames"), sources),
        str(group[0]) if isinstance(group, list | tuple) and group else "",
        number if isinstance(number, int) and not first.get("is_p2p") else 0,
    )  # fmt: skip


def _name(entry: Mapping[str, Any]) -> str:
    """Return `all_reduce [1024]` of `nccl:all_reduce`."""
    name = str(entry.get("profiling_name", "")).rpartition(":")[2] or "a collective"
    name = _PUBLIC_NAMES.get(name, name)
    sizes = entry.get("input_sizes")
    if name.startswith(_EQUAL_SIZES) and isinstance(sizes, list | tuple) and sizes:
        name += f" {sizes[0]}"
    return clean(name)[:_MOST_TEXT]


def _began(entry: Mapping[str, Any]) -> float:
    ns = entry.get("time_created_ns")
    return ns / 1e9 if isinstance(ns, int | float) else 0.0


def _place(frames: Any, sources: TraceSources) -> Location | None:
    """Return the user's innermost line."""
    for frame in _dictionaries(frames):
        file, line, name = frame.get("filename"), frame.get("line"), frame.get("name")
        if (
            isinstance(file, str)
            and isinstance(line, int)
            and (place := sources.place(clean(file), line, clean(str(name))))
        ):
            return place
    return None


def _dictionaries(values: Any) -> Iterable[dict[str, Any]]:
    return (value for value in values if isinstance(value, dict)) if isinstance(values, list | tuple) else ()
