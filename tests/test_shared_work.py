"""Work that forked processes share."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest

from tcexplore import processes
from tcexplore.processes import Forked, beside, descendants

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")


def test_items_of_all_processes_come_as_they_are_ready():
    def part(number: int) -> Iterator[tuple[int, int, int]]:
        yield from ((number, item, os.getpid()) for item in range(3))

    with Forked([part(number) for number in range(3)]) as forked:
        items = list(forked)
    assert sorted(item[:2] for item in items) == [(number, item) for number in range(3) for item in range(3)]
    assert len({pid for *_, pid in items} | {os.getpid()}) == 4


def test_a_new_iteration_goes_on_with_the_items_that_are_left():
    with Forked([iter(range(3)), iter(range(3, 6))]) as forked:
        items = [item for _ in range(6) for item in islice(forked, 1)]
        assert sorted(items) == list(range(6))
        assert list(forked) == []


def test_an_item_may_be_larger_than_a_pipe():
    with Forked([iter([b"x" * 5_000_000]), iter([b"y" * 5_000_000])]) as forked:
        assert sorted(map(len, forked)) == [5_000_000, 5_000_000]


def test_a_part_that_fails_leaves_the_others_and_a_reason():
    def killed() -> Iterator[int]:
        yield 1
        os.kill(os.getpid(), signal.SIGKILL)

    def raising() -> Iterator[int]:
        yield 2
        raise MemoryError

    for part, status in ((killed, -9), (raising, 1)):
        with Forked([part(), iter(range(10, 2000))]) as forked:
            items = sorted(forked)
        assert items[1:] == list(range(10, 2000))
        assert items[0] in (1, 2)
        assert forked.failure == f"a forked process ended with status {status}"


def test_a_process_that_cannot_be_forked_is_a_failure(monkeypatch: pytest.MonkeyPatch):
    fork, forks = os.fork, iter((True, False))

    def limited() -> int:
        if next(forks):
            return fork()
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", limited)
    with Forked([iter([1]), iter([2])]) as forked:
        assert list(forked) == [1]
    assert forked.failure == "a process cannot be forked: Resource temporarily unavailable"


def test_a_forked_process_ends_when_nobody_can_receive_any_more(monkeypatch: pytest.MonkeyPatch):
    """The system ends it with its parent on Linux only; elsewhere, it notices that the pipe is closed."""
    monkeypatch.setattr(processes, "_control", lambda *_: None)

    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 100_000

    def inner() -> Iterator[int]:
        with Forked([endless(), endless()]) as forked:
            next(iter(forked))
            yield from forked._pids.values()
            os._exit(0)  # without an end of the block

    with Forked([inner(), endless()]) as forked:
        pids = list(islice((item for item in forked if isinstance(item, int)), 2))
        deadline = time.monotonic() + 30
        try:
            while any(_state(pid) != "Z" for pid in pids):
                assert time.monotonic() < deadline, "a process is left"
                os.sched_yield()
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _state(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "Z"


def test_no_process_is_left_after_the_block():
    def endless() -> Iterator[int]:
        while True:
            yield os.getpid()

    with Forked([endless(), endless()]) as forked:
        pid = next(iter(forked))
    assert pid not in [known for known, _ in descendants(os.getpid())]


def test_work_beside_a_block_is_done_by_another_process(monkeypatch: pytest.MonkeyPatch):
    pids = []
    for count in (1, 2):
        monkeypatch.setattr(processes, "shares", lambda count=count: count)
        with beside(os.getpid) as result:
            pids.append(result())
    assert pids[0] == os.getpid() != pids[1]


def test_work_of_an_ended_process_is_done_here(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "shares", lambda: 2)
    own = os.getpid()

    def work() -> int:
        if os.getpid() != own:
            os._exit(3)
        return 1

    with beside(work) as result:
        assert result() == 1
