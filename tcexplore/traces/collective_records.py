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

OVERDUE_S = 5.0
"""Age from which on a collective that has not finished waits for another rank."""

_PUBLIC_NAMES = {"_all_gather_base": "all_gather_into_tensor", "_reduce_scatter_base": "reduce_scatter_tensor"}

_EQUAL_SIZES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
"""Beginnings of collectives whose input has the same size on all ranks: one of another size is another collective."""

_MOST_BYTES, _MOST_TEXT = 64 << 20, 120


class PendingCollective(NamedTuple):
    """The first collective that a rank has begun and not finished."""

    name: str
    """With the size of its input, if that is the same on all ranks."""
    began: float
    """As a timestamp."""
    place: Location | None
    """The user's line; None in a backward, where torch communicates in C++."""


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
        self._answers: dict[int, tuple[float, PendingCollective | None]] = {}
        """The newest answers and their times, by process."""

    def may_be_asked(self, pid: int) -> bool:
        return self._recorder(pid) is not None

    def update(self, pid: int, sources: TraceSources) -> PendingCollective | None:
        """Return what a process waits for by its newest answer, and ask it again if that is old."""
        recorder = self._recorder(pid)
        if recorder is None:
            return None
        with suppress(OSError):
            written = os.stat(recorder.file).st_mtime
            if written > self._answers.get(pid, (0.0, None))[0] and written >= self._asked.get(pid, written + 1) - 0.1:
                self._answers[pid] = written, pending_collective(_read(recorder.file), sources, written)
        if time.time() - self._asked.get(pid, 0.0) >= INTERVAL_S and _ask(recorder):
            self._asked[pid] = time.time()
        return self._answers.get(pid, (0.0, None))[1]

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


def pending_collective(content: Any, sources: TraceSources, now: float) -> PendingCollective | None:
    """Return the oldest collective that has not finished `OVERDUE_S` after it began."""
    entries = content.get("entries") if isinstance(content, dict) else None
    pending = [entry for entry in _dictionaries(entries) if entry.get("state") != "completed"]
    first = min(pending, key=_began, default=None)
    if first is None or not 0.0 < _began(first) <= now - OVERDUE_S:
        return None
    return PendingCollective(_name(first), _began(first), _place(first.get("frames"), sources))


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
