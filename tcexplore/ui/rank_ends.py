"""When and how the processes of a followed job end: the rank that ends first is named with its exit status."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Mapping

from tcexplore.torch_text.torchrun_report import exit_codes, rank_errors
from tcexplore.traces.followed_rank import QUIET_S, FollowedRank
from tcexplore.traces.unfinished_ranks import RankEnd
from tcexplore.ui.launched_job import LaunchedJob

_TOGETHER_S = 0.02
"""Ends that are closer than this have no known order."""

_STILL_RUN = RankEnd("its process has ended, the others still run")


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

    def early(self, ranks: Mapping[int, FollowedRank], launched: LaunchedJob | None) -> dict[int, RankEnd]:
        """Return the ranks that ended before the others, with the reason.

        While others run, a rank counts only after some seconds: ranks of a job that is complete end one after another.
        """
        ended = {rank: self._ended[known.process.pid] for rank, known in ranks.items()
                 if known.process.pid in self._ended}  # fmt: skip
        if not ended or len(ranks) < 2:
            return {}
        first = min(ended.values())
        earliest = {rank: ranks[rank] for rank, at in ended.items() if at - first <= _TOGETHER_S}
        failed = _failed(earliest, launched.report) if launched is not None and launched.report else {}
        if failed:
            return failed
        waits = len(ended) < len(ranks) and time.monotonic() - first >= QUIET_S
        return dict.fromkeys(earliest, _STILL_RUN) if waits else {}


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
        ends[rank] = RankEnd(f"{_exit_reason(code)}{message}", frames[-1] if frames else None)
    return ends


def _exit_reason(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    with contextlib.suppress(ValueError):
        return f"signal {-code} ({signal.Signals(-code).name})"
    return f"signal {-code}"


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
