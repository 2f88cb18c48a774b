"""Python stacks of running processes of this machine, read by py-spy without stopping them."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

from tcexplore import events as ev
from tcexplore.processes import NoAnswerError, run_bounded
from tcexplore.traces.trace_sources import TraceSources

FIRST_S = 3.0
"""Seconds without a record after which a stack is read."""

LONGEST_S = 60.0
"""Maximum seconds between two reads of a process; the time doubles with each read."""

_LIMIT_S = 10.0
"""Seconds for one read."""

_MOST_BYTES = 16 << 20
"""Bytes of the stacks of one process."""

_GENERATED = "torchinductor_"
_MOST_FRAMES = 60
_WAIT = re.compile(r"_c10d_functional\.wait_tensor\.default\((\w+)\)")
_COLLECTIVE = re.compile(r"_c10d_functional\.(?!wait_tensor)(\w+)")
_BACKWARD = "_engine_run_backward"
"""torch's function that runs the backward in C++; DDP communicates in it."""
_DISTRIBUTED = os.path.join("torch", "distributed", "")

NO_READER = (
    "A rank that is silent runs your program, or waits in a collective. To see which line, install py-spy: "
    "pip install py-spy"
)


class ProcessStack(NamedTuple):
    """Current activity of a process."""

    waits: bool | None
    """Whether the main thread uses no CPU; None if unknown."""
    call: str
    """Innermost call of generated code or of `torch.distributed`; empty for any other."""
    place: ev.Location | None
    """The user's innermost line."""
    frames: tuple[ev.Location, ...] = ()
    """Innermost first."""


class _NextRead(NamedTuple):
    """When to read the stack of a process again."""

    last_record: float
    """Time of the process's last record before the read."""
    at: float
    seconds: float
    """Seconds between two reads."""


class StackWatch:
    """Reads the stacks of ranks that make no progress, less and less often."""

    def __init__(self) -> None:
        self._next: dict[int, _NextRead] = {}
        """By process."""
        self.note = ""
        """Why there are no stacks."""

    def due(self, pid: int, last_record: float) -> bool:
        """Return whether to read the stack of a process now, and schedule the next read."""
        now = time.time()
        if now - last_record < FIRST_S:
            return False
        known = self._next.get(pid)
        seconds = FIRST_S
        if known is not None and known.last_record == last_record:
            if now < known.at:
                return False
            seconds = min(LONGEST_S, known.seconds * 2)
        self._next[pid] = _NextRead(last_record, now + seconds, seconds)
        return True

    def read(self, pid: int, trace: str, sources: TraceSources) -> ProcessStack | None:
        """Return what the process that writes a trace file does; None if it is not one of this machine."""
        if not holds_open(pid, trace):
            return None
        reader = shutil.which("py-spy") or shutil.which("py-spy", path=os.path.dirname(sys.executable))
        if reader is None:
            self.note = NO_READER
            return None
        try:
            command = [reader, "dump", "--nonblocking", "--json", "--full-filenames", "--pid", str(pid)]
            answer = run_bounded(command, _LIMIT_S, most_bytes=_MOST_BYTES)
            if answer.status:
                lines = answer.errors.decode("utf-8", "replace").strip().splitlines()
                self.note = f"py-spy cannot read process {pid}: {ev.clean(lines[-1] if lines else 'no reason given')}"
                return None
            threads = json.loads(answer.output)
        except NoAnswerError as error:
            self.note = f"py-spy {error}"
            return None
        except (OSError, ValueError, RecursionError):
            return None
        return stack_of(threads, pid, sources)


def holds_open(pid: int, path: str) -> bool:
    """Return whether a process of this machine has a file open; another machine's process may have the same id."""
    folder = f"/proc/{pid}/fd"
    try:
        wanted = os.stat(path)
        return any(_is_same(os.path.join(folder, descriptor), wanted) for descriptor in os.listdir(folder))
    except OSError:
        return False


def _is_same(descriptor: str, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(descriptor), wanted)
    except OSError:
        return False


def stack_of(threads: Any, pid: int, sources: TraceSources) -> ProcessStack | None:
    """Return what the main thread does, from py-spy's JSON."""
    for thread in threads if isinstance(threads, list) else ():
        if not isinstance(thread, dict) or thread.get("os_thread_id") not in (pid, None):
            continue
        frames = tuple(islice(_frames(thread.get("frames")), _MOST_FRAMES))
        user = next((frame for frame in frames if sources.owns(frame.file)), None)
        place = sources.place(user.file, user.line, user.function) if user is not None else None
        return ProcessStack(not thread.get("active"), _call(frames), place, frames)
    return None


def _frames(frames: Any) -> Iterable[ev.Location]:
    """Yield the frames, innermost first."""
    for frame in frames if isinstance(frames, list) else ():
        try:
            yield ev.Location(ev.clean(str(frame["filename"])), int(frame["line"]), ev.clean(str(frame["name"])))
        except (KeyError, TypeError, ValueError):
            continue


def _call(frames: Iterable[ev.Location]) -> str:
    """Return the innermost call that communicates or was generated."""
    for frame in frames:
        if _GENERATED in frame.file:
            return _code(frame)
        if _DISTRIBUTED in frame.file:
            return frame.function
        if frame.function == _BACKWARD:
            return "backward"
    return ""


def _code(frame: ev.Location) -> str:
    """Return the line of a generated module, of a wait the collective that it waits for; the file may be gone."""
    try:
        with open(frame.file, encoding="utf-8", errors="replace") as file:
            lines = list(islice(file, frame.line))
    except OSError:
        return frame.function
    if len(lines) < frame.line:
        return frame.function
    line = lines[-1].strip()
    wait = _WAIT.search(line)
    if wait is not None:
        started = (_COLLECTIVE.search(text) for text in reversed(lines[:-1]) if wait[1] in text)
        if (collective := next(filter(None, started), None)) is not None:
            return collective[1].rstrip("_")
    return ev.clean(line.partition(" = ")[2] or line)[:120]
