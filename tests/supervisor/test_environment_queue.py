"""Runs in several environments: each job has a fresh worker of its environment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tcexplore.events import Event, Job
from tcexplore.events.commands import PauseTiming, RunCommand
from tcexplore.model_python import OWN_PYTHON
from tcexplore.supervisor import supervisor as module
from tcexplore.supervisor.supervisor import EnvironmentQueue, StudyQueue

A, B = OWN_PYTHON._replace(executable="/a", source="--python"), OWN_PYTHON._replace(executable="/b", source="--python")
JOB = Job(run=1, file="/m.py", source="", python="/a")


class FakeSupervisor:
    """A supervisor that records what is done with it."""

    def __init__(self, _emit: Any, **options: Any) -> None:
        self.options = options
        self.log: list[object] = []

    def start_now(self) -> None:
        self.log.append("start")

    def submit(self, job: Job) -> None:
        self.log.append(job.run)

    def send(self, command: RunCommand) -> bool:
        self.log.append(command)
        return True

    async def close(self) -> None:
        self.log.append("close")


@pytest.fixture
def supervisors(monkeypatch: pytest.MonkeyPatch) -> list[FakeSupervisor]:
    started: list[FakeSupervisor] = []

    def start(emit: Any, **options: Any) -> FakeSupervisor:
        started.append(FakeSupervisor(emit, **options))
        return started[-1]

    monkeypatch.setattr(module, "Supervisor", start)
    return started


def ignore(_: Event) -> None:
    """Drop an event."""


async def test_each_job_has_a_fresh_worker_of_its_environment(supervisors: list[FakeSupervisor]):
    queue = EnvironmentQueue({"/a": A, "/b": B}, ignore)
    await queue.start()
    assert not queue.send(PauseTiming(paused=True)), "no run receives it yet"
    queue.submit(JOB)
    queue.submit(replace(JOB, run=2, python="/b"))
    await queue.close()
    first, second = supervisors
    assert [supervisor.options["python"] for supervisor in supervisors] == [A, B]
    assert all(supervisor.options["once"] for supervisor in supervisors), "no further worker is prepared"
    assert first.log == [PauseTiming(paused=True), "start", 1, "close"]
    assert second.log == [PauseTiming(paused=True), "start", 2, "close"]


async def test_commands_go_to_the_current_run(supervisors: list[FakeSupervisor]):
    queue = EnvironmentQueue({"/a": A}, ignore)
    queue.submit(JOB)
    assert queue.send(PauseTiming(paused=True))
    queue.end()
    assert not queue.send(PauseTiming(paused=False))
    await queue.close()
    assert supervisors[0].log == [PauseTiming(paused=False), "start", 1, PauseTiming(paused=True), "close"]


class FakeQueue:
    """A queue on shared workers that records its jobs."""

    def __init__(self) -> None:
        self.log: list[object] = []

    async def start(self) -> None:
        self.log.append("start")

    def submit(self, job: Job) -> None:
        self.log.append(job.run)

    def send(self, command: RunCommand) -> bool:
        self.log.append(command)
        return False

    def end(self) -> None:
        self.log.append("end")

    async def close(self) -> None:
        self.log.append("close")


async def test_a_cold_job_of_a_study_has_a_new_worker_and_other_jobs_share_workers(supervisors: list[FakeSupervisor]):
    shared: Any = FakeQueue()
    queue = StudyQueue(lambda _: shared, OWN_PYTHON, ignore)
    await queue.start()
    queue.submit(replace(JOB, run=1, python=""))
    queue.send(PauseTiming(paused=True))
    queue.submit(replace(JOB, run=2, python="", cold=True))
    assert queue.send(PauseTiming(paused=False)), "the cold run receives it"
    queue.submit(replace(JOB, run=3, python=""))
    await queue.close()
    assert shared.log == [
        "start", "end", 1, PauseTiming(paused=True), "end", PauseTiming(paused=False), 3, "close",
    ]  # fmt: skip
    (cold,) = supervisors
    assert cold.options == {"once": True, "python": OWN_PYTHON}
    assert cold.log == [PauseTiming(paused=True), "start", 2, PauseTiming(paused=False), "close"]
