"""The next worker starts immediately if a run waits for it, but not while another run is timed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tcexplore.events import Job, Standby
from tcexplore.supervisor import supervisor as module
from tcexplore.supervisor.supervisor import Supervisor

STANDBY = Standby(torch="2.13.0", python="3.11.7", device="cuda", seconds=3.0)
JOB = Job(run=1, file="/m.py", source="")


class FakeRunProcess:
    """A run process that does nothing."""

    ready, timing, answered = True, False, True

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.over.set()

    def mute(self) -> None:
        """Do nothing."""

    def start(self, job: Job, emit: Any, on_answer: Any) -> None:
        """Do nothing."""


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    started: list[Any] = []

    def worker(number: int, changed: Any, **_: Any) -> Any:
        started.append(SimpleNamespace(
            number=number, changed=changed, idle_process=FakeRunProcess(), standby=None, fork_server=False,
            failure=None, gone=False, signal=lambda *_: None,
        ))  # fmt: skip
        return started[-1]

    monkeypatch.setattr(module, "WorkerProcess", worker)
    return started


def ready(worker: Any) -> None:
    worker.standby = STANDBY
    worker.changed(worker)


async def test_workers_start_one_at_a_time_and_none_while_a_run_is_timed(workers: list[Any]):
    supervisor = Supervisor(lambda _: None)
    await supervisor.start()
    process = workers[0].idle_process
    supervisor.submit(JOB)
    ready(workers[0])
    assert len(workers) == 2, "the run took the first worker, so exactly one more starts"
    process.timing = True
    ready(workers[1])
    assert len(workers) == 2, "a second standby can wait until the timing is over"
    workers[1].idle_process = None
    supervisor.submit(JOB)
    assert len(workers) > 2, "a save without a ready worker does not wait"
    assert supervisor._pool._retry is not None
    supervisor._pool._retry.cancel()
