"""Workers prepare after the first answer, and standbys replace those that a save takes."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tcexplore.events import Job, Standby
from tcexplore.events.commands import EarlyImports, Rehearsal
from tcexplore.model_python import OWN_PYTHON, ModelPython, StartedWorker
from tcexplore.supervisor import supervisor as module
from tcexplore.supervisor.supervisor import Supervisor

STANDBY = Standby(torch="2.13.0", python="3.11.7", device="cuda", seconds=3.0)
JOB = Job(run=1, file="/m.py", source="")


class FakeRunProcess:
    """A run process that does nothing."""

    def __init__(self, *, for_study: bool = False, imports: EarlyImports | None = None) -> None:
        self.for_study, self.imports = for_study, imports
        self.next_imports: EarlyImports | None = None
        self.pid: int | None = None
        self.primed = self.answered = self.generates_code = False
        self.rehearsal: Rehearsal | None = None
        self.commands: list[Any] = []
        self.over = asyncio.Event()
        self.over.set()

    def mute(self) -> None:
        """Do nothing."""

    def send(self, command: Any) -> bool:
        self.commands.append(command)
        return True

    def start(self, job: Job, _emit: Any, on_change: Any, _run_again: Any) -> None:
        self.job, self.on_change = job, on_change

    def answer(self) -> None:
        """Produce the first graph."""
        self.answered = True
        self.on_change()


class FakeWorker(SimpleNamespace):
    """A worker whose state the test sets."""

    def open_run(
        self, _rehearsal: Rehearsal | None = None, imports: EarlyImports | None = None, *, warm_up: bool,
        for_study: bool = False,
    ) -> None:  # fmt: skip
        assert warm_up != for_study
        self.idle.append(FakeRunProcess(for_study=for_study, imports=imports))

    def discard(self, run: FakeRunProcess) -> None:
        self.idle.remove(run)

    def prepare(self, *, prime: bool) -> None:
        self.prepare_sent, self.prepared_to_prime = True, prime

    def signal(self, run: FakeRunProcess, number: int) -> None:
        self.signals.append((run, number))

    def become(self, **state: Any) -> None:
        """Change the state, and tell the pool; every run process has opened."""
        vars(self).update(state)
        for run in self.idle:
            run.pid = 1
        self.changed(self)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    made: list[Any] = []

    def worker(
        number: int, changed: Any, *, single: bool, prime: bool, python: ModelPython, started: StartedWorker | None
    ) -> Any:
        assert python is OWN_PYTHON
        assert started is None
        made.append(FakeWorker(
            number=number, changed=changed, single=single, prime=prime, idle=[FakeRunProcess()], standby=None,
            serving=False, fork_server=False, failure=None, gone=False, prepare_sent=False, preparing=False,
            self_priming=False, signals=[],
        ))  # fmt: skip
        return made[-1]

    monkeypatch.setattr(module, "WorkerProcess", worker)
    return made


async def start(**options: Any) -> Supervisor:
    supervisor = Supervisor(lambda _: None, **options)
    await supervisor.start()
    supervisor.submit(JOB)
    return supervisor


FORKS = {"standby": STANDBY, "serving": True, "fork_server": True}


async def test_a_fork_server_prepares_once_the_first_run_is_answered(workers: list[Any]):
    await start()
    first = workers[0].idle[0]
    workers[0].become(**FORKS)
    assert first.job == JOB
    assert (workers[0].idle, workers[0].prepare_sent) == ([], False), "nothing else runs before the first graph"
    first.answer()
    assert (len(workers[0].idle), workers[0].prepared_to_prime) == (1, True)
    assert len(workers) == 1


async def test_a_study_prepares_without_priming(workers: list[Any]):
    await start(prime=False)
    first = workers[0].idle[0]
    workers[0].become(**FORKS)
    first.answer()
    assert not workers[0].prepared_to_prime


async def test_a_single_job_prepares_nothing(workers: list[Any]):
    await start(once=True)
    first = workers[0].idle[0]
    workers[0].become(standby=STANDBY)
    first.answer()
    assert (len(workers), workers[0].single, workers[0].idle) == (1, True, [])


async def test_processes_that_prime_themselves_are_kept_ready_and_a_save_takes_the_primed_one(workers: list[Any]):
    supervisor = await start(standbys=3)
    first = workers[0].idle[0]
    workers[0].become(**FORKS, self_priming=True)
    first.answer()
    assert len(workers[0].idle) == 3
    workers[0].become()
    unprimed, primed, _ = workers[0].idle
    primed.primed = True
    supervisor.submit(JOB)
    assert primed.job == JOB
    assert len(workers[0].idle) == 2, "the next process is forked after the graph"
    supervisor.submit(JOB)
    assert unprimed.job == JOB, "a save does not wait for priming; the oldest process is the most advanced"


async def test_timing_waits_while_a_worker_prepares(workers: list[Any]):
    await start()
    run = workers[0].idle[0]
    workers[0].become(**FORKS)
    workers[0].become(preparing=True)
    workers[0].become(preparing=True)
    workers[0].become(preparing=False)
    assert [command.paused for command in run.commands] == [True, False]


async def test_workers_that_cannot_fork_start_one_at_a_time_and_none_before_the_answer(workers: list[Any]):
    supervisor = await start()
    run = workers[0].idle[0]
    workers[0].become(standby=STANDBY)
    assert len(workers) == 1, "the first run has no graph yet"
    run.answer()
    assert (len(workers), workers[1].single, workers[1].prime) == (2, True, True)
    workers[1].become(standby=STANDBY)
    assert len(workers) == 3
    workers[1].idle.clear()
    supervisor.submit(JOB)
    assert len(workers) > 3, "a save without a ready worker does not wait"


async def test_a_worker_that_hangs_is_replaced(workers: list[Any]):
    supervisor = await start()
    run = workers[0].idle[0]
    workers[0].become(**FORKS)
    run.answer()
    workers[0].idle.clear()
    workers[0].become(serving=False)
    assert len(workers) == 2
    workers[1].become(**FORKS)
    replacement = workers[1].idle[0]
    supervisor.submit(JOB)
    assert replacement.job == JOB


async def test_the_process_that_waits_for_a_save_runs_no_study(workers: list[Any]):
    supervisor = await start()
    first = workers[0].idle[0]
    workers[0].become(**FORKS)
    first.answer()
    workers[0].become()
    kept = workers[0].idle[0]
    study = supervisor.study_queue(lambda _: None)
    await study.start()
    study.submit(JOB)
    kept_too, opened = workers[0].idle
    assert (kept_too, opened.for_study) == (kept, True)
    workers[0].become()
    assert (opened.job, workers[0].idle) == (JOB, [kept])
    supervisor.submit(replace(JOB, run=2))
    assert kept.job.run == 2
    await study.close()
    signals = [number for run, number in workers[0].signals if run is opened]
    assert signals[:2] == [signal.SIGSTOP, signal.SIGTERM], "an end at once would take a core from the save"


async def test_the_timing_of_a_study_waits_while_the_run_of_the_file_generates_code(workers: list[Any]):
    supervisor = await start()
    first = workers[0].idle[0]
    workers[0].become(**FORKS)
    first.answer()
    study = supervisor.study_queue(lambda _: None)
    await study.start()
    study.submit(JOB)
    opened = workers[0].idle[-1]
    workers[0].become()
    for generates in (True, False):
        first.generates_code = generates
        first.on_change()
    assert [command.paused for command in opened.commands] == [True, False]
    assert first.commands == [], "its own timing decides between two pairs"
    opened.generates_code = True
    opened.on_change()
    assert len(opened.commands) == 2, "code that a study generates itself holds up nothing"


async def test_a_study_without_a_run_of_the_file_takes_the_process_that_waits(workers: list[Any]):
    supervisor = Supervisor(lambda _: None)
    await supervisor.start()
    workers[0].become(**FORKS)
    (kept,) = workers[0].idle
    study = supervisor.study_queue(lambda _: None)
    await study.start()
    study.submit(JOB)
    assert kept.job == JOB


async def test_a_process_that_made_other_imports_than_the_saved_file_does_not_run_it(workers: list[Any]):
    supervisor, ahead = await process_with_imports(workers, "import pygments")
    supervisor.submit(replace(JOB, source="import rich\n"))
    assert ahead not in workers[0].idle
    workers[0].become()
    assert not hasattr(ahead, "job")
    assert supervisor.waiting is None, "another process runs it"


async def test_a_process_that_made_the_imports_of_the_saved_file_runs_it(workers: list[Any]):
    supervisor, ahead = await process_with_imports(workers, "import pygments")
    job = replace(JOB, source="import torch\nimport pygments\nimport rich\n")
    supervisor.submit(job)
    assert ahead.job == job


async def process_with_imports(workers: list[Any], *statements: str) -> tuple[Supervisor, Any]:
    """Return a supervisor and its idle process, which has made these imports."""
    supervisor = await start()
    first = workers[0].idle[0]
    workers[0].become(**FORKS)
    first.next_imports = EarlyImports(file=JOB.file, argv=(), statements=statements)
    first.answer()
    workers[0].become()
    ahead = workers[0].idle[0]
    assert ahead.imports == first.next_imports
    return supervisor, ahead
