"""When and how the processes of a followed job end: which rank failed first, with which error and line.

Reads what torchrun and torch write about ranks that fail.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tcexplore.events import Location, clean
from tcexplore.events.rank_events import name_ranks
from tcexplore.events.run_events import name_exit
from tcexplore.traces.followed_trace import QUIET_S, FollowedRank
from tcexplore.traces.rank_comparison import RankEnd

_TOGETHER_S = 0.02
"""Ends that are closer than this have no known order."""


class RankEnds:
    """Ends of processes in their order: torchrun ends the other ranks right after the first one failed."""

    def __init__(self) -> None:
        self._watched: dict[int, int | None] = {}
        """Descriptor by process id, None for one that is polled."""
        self._ended: dict[int, float] = {}
        """Monotonic time of the end by process id."""

    def is_over(self, pid: int) -> bool:
        """Return whether a process has ended. A process that was never seen may run on another machine."""
        if pid in self._ended:
            return True
        if _is_alive(pid):
            self._watch(pid)
            return False
        if pid in self._watched:
            self._note_end(pid)
        return pid in self._watched

    def _watch(self, pid: int) -> None:
        if pid in self._watched:
            return
        self._watched[pid] = None
        with contextlib.suppress(OSError, AttributeError, OverflowError):  # only Linux has descriptors of processes
            self._watched[pid] = os.pidfd_open(pid)
            asyncio.get_running_loop().add_reader(self._watched[pid] or -1, self._note_end, pid)

    def _note_end(self, pid: int) -> None:
        self._ended.setdefault(pid, time.monotonic())
        self._release(pid)

    def _release(self, pid: int) -> None:
        descriptor = self._watched.get(pid)
        if descriptor is not None:
            self._watched[pid] = None
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        """Stop watching."""
        for pid in self._watched:
            self._release(pid)

    def early(self, ranks: Mapping[int, FollowedRank], report: str) -> dict[int, RankEnd]:
        """Return the ranks that failed first, with the reason; none before torchrun has reported on them."""
        ended = self._ends_of(ranks)
        if not report or not ended:
            return {}
        first = min(ended.values())
        return _failed({rank: ranks[rank] for rank, at in ended.items() if at - first <= _TOGETHER_S}, report)

    def note(self, ranks: Mapping[int, FollowedRank]) -> str:
        """Return which ranks have ended while others run, empty for none.

        The ranks of a job that is complete may end one after another: only some seconds later, that is worth a note.
        """
        ended = self._ends_of(ranks)
        if not ended or len(ended) == len(ranks) or time.monotonic() - min(ended.values()) < QUIET_S:
            return ""
        others = name_ranks(sorted(set(ranks) - set(ended)))
        verbs = "has" if len(ended) == 1 else "have", "runs" if len(ended) == len(ranks) - 1 else "run"
        return f"{name_ranks(sorted(ended)).capitalize()} {verbs[0]} ended; {others} still {verbs[1]}."

    def _ends_of(self, ranks: Mapping[int, FollowedRank]) -> dict[int, float]:
        """Return when ranks ended, in the order of their numbers."""
        pids = {rank: known.process.pid for rank, known in ranks.items()}
        return {rank: self._ended[pid] for rank, pid in pids.items() if pid in self._ended}


def _failed(ranks: Mapping[int, FollowedRank], report: str) -> dict[int, RankEnd]:
    """Return those of the ranks that torchrun reports as failed; it ends the others by SIGTERM."""
    codes, errors = exit_codes(report), rank_errors(report)
    own = {rank for rank, known in ranks.items() if codes.get(known.process.pid, 0) not in (0, -signal.SIGTERM)}
    ends: dict[int, RankEnd] = {}
    for rank, known in ranks.items():
        code = codes.get(known.process.pid)
        if code is None or (own and rank not in own):
            continue
        error, sources = errors.get(rank), known.records.sources
        frames = [frame for frame in error.frames if sources.owns(frame.file)] if error is not None else []
        message = f": {error.message}" if error is not None and error.message else ""
        ends[rank] = RankEnd(f"{name_exit(code)}{message}", frames[-1] if frames else None)
    return ends


def _is_alive(pid: int) -> bool:
    """Return whether a process of this machine has the id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
    return True


_EXIT_CODE = re.compile(r"^ *exitcode +: (-?\d{1,5}) \(pid: (\d{1,10})\)", re.M)
_RANK_LINE = re.compile(r"^\[rank(\d{1,5})\]:(?: (.*))?$", re.M)
"""torch begins each line of an uncaught exception with the rank."""
_FRAME = re.compile(r'^  File "(.+?)", line (\d{1,9}), in (.+)$')
_TRACEBACK = "Traceback (most recent call last):"


@dataclass(slots=True)
class RankError:
    """An exception that ended a rank."""

    message: str = ""
    """`RuntimeError: …`, its first line."""
    frames: list[Location] = field(default_factory=list)
    """Outermost first."""


def add_errors(ranks: Mapping[int, FollowedRank], reports: Iterable[str]) -> None:
    """Learn the exceptions of ranks that have ended, from what the job wrote.

    No report is read if all are known: `reports` may be a generator.
    """
    if all(rank.error for rank in ranks.values() if rank.over):
        return
    errors: dict[int, RankError] = {}
    for report in reports:
        errors |= rank_errors(report)
    for number, rank in ranks.items():
        error = errors.get(number) if rank.over else None
        if error is not None and not rank.error:
            owned = [frame for frame in error.frames if rank.records.sources.owns(frame.file)]
            rank.error, rank.error_place = error.message, owned[-1] if owned else None


def exit_codes(text: str) -> dict[int, int]:
    """Return the exit code, negative for a signal, by process id, of the ranks that torchrun reports as failed."""
    return {int(pid): int(code) for code, pid in _EXIT_CODE.findall(text)}


def rank_errors(text: str) -> dict[int, RankError]:
    """Return the last exception of each rank."""
    errors: dict[int, RankError] = defaultdict(RankError)
    for number, line in _RANK_LINE.findall(text):
        rank = int(number)
        if line == _TRACEBACK:
            errors[rank] = RankError()
        elif frame := _FRAME.match(line):
            errors[rank].frames.append(Location(clean(frame[1]), int(frame[2]), clean(frame[3])))
        elif rank in errors and line and not line.startswith(" ") and not errors[rank].message:
            errors[rank].message = clean(line)
    return dict(errors)
