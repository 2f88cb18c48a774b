"""The memory for the frames of a worker's calls, and the lock of its progress bars."""

from __future__ import annotations

import resource
import sys
import threading
from types import SimpleNamespace

import pytest

from tcexplore.worker.process_setup import call_with_frame_room, unshare_progress_bars

CALLS = 2_000


def leaf(*, a: int = 0, b: int = 0, c: int = 0, d: int = 0, e: int = 0, f: int = 0, g: int = 0, h: int = 0) -> int:
    """Have a larger frame than `faults_at`, so that it crosses the end of each chunk at some depth."""
    return a + (b + (c + (d + (e + (f + (g + h))))))


def faults_at(depth: int) -> int:
    """Return the page faults of many calls of a function at a depth of the stack."""
    if depth:
        return faults_at(depth - 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(CALLS):
        leaf()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def most_faults() -> int:
    """Return the page faults at the worst of 300 depths, which reach over several of CPython's usual chunks."""
    return max(map(faults_at, range(300)))


def test_no_depth_of_the_stack_maps_memory_for_each_call() -> None:
    assert call_with_frame_room(most_faults) < CALLS / 10


def test_results_and_errors_pass() -> None:
    assert call_with_frame_room(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        call_with_frame_room(lambda: 1 // 0)


def test_progress_bars_get_a_lock_of_this_process_only(monkeypatch: pytest.MonkeyPatch) -> None:
    locks: list[object] = []
    monkeypatch.setitem(sys.modules, "tqdm", SimpleNamespace(tqdm=SimpleNamespace(set_lock=locks.append)))
    assert unshare_progress_bars() is sys.modules["tqdm"].tqdm
    assert [type(lock) for lock in locks] == [type(threading.RLock())]


def test_without_tqdm_there_is_no_lock_to_replace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tqdm", raising=False)
    assert unshare_progress_bars() is None
