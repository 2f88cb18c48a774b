"""Work that forked processes share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tcexplore import processes
from tcexplore.processes import Forked, ForkedError, beside, descendants

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")


def test_items_of_all_processes_come_as_they_are_ready():
    def part(number: int) -> Iterator[tuple[int, int, int]]:
        yield from ((number, item, os.getpid()) for item in range(3))

    with Forked([part(number) for number in range(3)]) as forked:
        items = list(forked)
    assert sorted(item[:2] for item in items) == [(number, item) for number in range(3) for item in range(3)]
    assert len({pid for *_, pid in items} | {os.getpid()}) == 4


def test_an_item_may_be_larger_than_a_pipe():
    with Forked([iter([b"x" * 5_000_000]), iter([b"y" * 5_000_000])]) as forked:
        assert sorted(map(len, forked)) == [5_000_000, 5_000_000]


def test_an_exception_of_a_part_is_raised_here():
    def part() -> Iterator[int]:
        yield 1
        raise ValueError("the reason")

    with Forked([part()]) as forked, pytest.raises(ValueError, match="the reason"):
        list(forked)


def test_a_killed_process_is_an_error():
    def part() -> Iterator[int]:
        yield 1
        os.kill(os.getpid(), signal.SIGKILL)

    with Forked([part()]) as forked, pytest.raises(ForkedError, match="status -9"):
        list(forked)


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
