"""When the next worker is started: at once where a run waits for it, not while another run is timed."""

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


class Seat:
    """A place that a run could be in."""

    ready, timing = True, False

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.over.set()

    def mute(self) -> None:
        """Nothing runs here."""

    def hold(self, held: bool) -> None:
        """Nothing runs here."""

    def give(self, job: Job, emit: Any) -> None:
        """Nothing runs here."""


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    made: list[Any] = []

    def host(number: int, changed: Any, **_: Any) -> Any:
        made.append(SimpleNamespace(
            number=number, changed=changed, spare=Seat(), standby=None, template=False, failure=None, gone=False,
            signal=lambda *_: None,
        ))  # fmt: skip
        return made[-1]

    monkeypatch.setattr(module, "Host", host)
    return made


def ready(host: Any) -> None:
    host.standby = STANDBY
    host.changed(host)


async def test_one_worker_at_a_time_and_none_while_a_run_is_timed(hosts: list[Any]):
    supervisor = Supervisor(lambda _: None)
    await supervisor.start()
    seat = hosts[0].spare
    supervisor.submit(JOB)
    ready(hosts[0])
    assert len(hosts) == 2, "the run took the first: the next is started, and only that one"
    seat.timing = True
    ready(hosts[1])
    assert len(hosts) == 2, "a second standby can wait until the timing is over"
    hosts[1].spare = None
    supervisor.submit(JOB)
    assert len(hosts) > 2, "a save that finds no worker does not wait"
    assert supervisor._later is not None
    supervisor._later.cancel()
