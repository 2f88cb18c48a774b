"""Runs replace one another, and no process survives the end of a run or of the front end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from tcexplore.events import Failed, Finished, Output, PhaseStarted, Standby
from tcexplore.model_python import ModelPython
from tests.supervisor.runs import Runs, alive, descendants, printed, until

pytestmark = [
    pytest.mark.torch,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

GOOD = "import torch\nmodel = torch.nn.Linear(4, 4)\ninputs = (torch.ones(2, 4),)\n"
STUBBORN = """\
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
started = [subprocess.Popen(["sleep", "600"], start_new_session=own).pid for own in (False, True)]
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
print(os.getpid(), *started)
while True:
    time.sleep(1)
"""
"""Ignores SIGTERM and leaves children, some of them in other sessions."""

HOLDS_LOCK = "import time, tqdm\ntqdm.tqdm.get_lock().acquire()\nprint('held')\nwhile True: time.sleep(1)\n"

SERVERS_AND_STANDBY = 4
"""The fork server, the primed one that it forked, an idle run process, and its seed of processes for timing."""


def by_age(pids: set[int]) -> list[int]:
    """Return processes, the oldest first. Their ids start again at a maximum."""
    return sorted(pids, key=lambda pid: int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]))


OTHERS: set[int] = set()
"""Processes of the supervisor that all tests of this test process share; these tests count those of their own."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def own_runs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Runs]:
    OTHERS.update(workers())
    runs = Runs(tmp_path_factory.mktemp("processes"))
    await runs.supervisor.start()
    await runs.run(GOOD, examine=False)
    await runs.until(lambda event: isinstance(event, Standby) and event.primed)
    yield runs
    await runs.supervisor.close()


@pytest_asyncio.fixture(loop_scope="session")
async def runs(own_runs: Runs) -> AsyncIterator[Runs]:
    yield own_runs
    own_runs.supervisor.end()


def workers(argument: bytes = b"tcexplore.worker") -> set[int]:
    """Return the processes that these tests started and whose command line contains `argument`."""
    pids = set()
    others = OTHERS.union(*map(descendants, OTHERS))
    for pid in set(descendants(os.getpid())) - others:
        with suppress(OSError):
            if argument in Path(f"/proc/{pid}/cmdline").read_bytes():
                pids.add(pid)
    return pids


async def test_after_fifty_quick_saves_only_the_last_run_reports_and_no_process_remains(runs: Runs) -> None:
    await runs.run(GOOD, examine=False)
    del runs.events[:]
    for _ in range(50):
        runs.submit(GOOD, examine=False)
        await runs.wait_for(PhaseStarted)
    await runs.wait_for(Finished)
    order = [event.run for event in runs.events if not isinstance(event, Standby)]
    assert order == sorted(order), "an event of an older run arrived late"
    assert sum(isinstance(event, Failed) for event in runs.events) == 0
    await until(lambda: len(workers()) == SERVERS_AND_STANDBY)


async def test_a_run_killed_with_the_lock_of_progress_bars_does_not_hang_the_next_one(runs: Runs) -> None:
    pytest.importorskip("tqdm")
    await prepared(runs)
    runs.submit(HOLDS_LOCK)
    await runs.wait_for(Output)
    assert isinstance((await runs.run(GOOD, examine=False, backend="aot_eager"))[-1], Finished)


async def test_a_run_that_ignores_sigterm_ends_with_everything_it_started(runs: Runs) -> None:
    runs.submit(STUBBORN)
    await runs.wait_for(Output)
    pids = [int(pid) for pid in printed(runs.events[-1:]).split()]
    assert all(map(alive, pids))
    await runs.run(GOOD, examine=False)
    await until(lambda: not any(map(alive, pids)))
    await until(lambda: len(workers()) == SERVERS_AND_STANDBY)


def idle(runs: Runs) -> set[int]:
    """Return the processes that wait for the next job."""
    return {run.pid for worker in runs.supervisor._pool._workers for run in worker.idle if run.pid is not None}


async def test_the_next_save_is_answered_after_the_primed_server_was_killed(runs: Runs) -> None:
    await runs.run(GOOD, examine=False)
    await until(lambda: bool(idle(runs)))
    started = workers()
    server, primed, *_ = by_age(started)
    os.kill(primed, signal.SIGKILL)
    await until(lambda: bool(idle(runs) - started))
    assert isinstance((await runs.run(GOOD, examine=False))[-1], Finished)
    assert alive(server)


async def prepared(runs: Runs) -> None:
    """Wait until the servers are prepared, and a process waits for the next job."""
    pool = runs.supervisor._pool
    await until(lambda: bool(idle(runs)) and not any(worker.preparing for worker in pool._workers))


def submit_and_kill(runs: Runs, server: int) -> None:
    """Submit a job, and kill a server before its run has sent an event."""
    # A killed server frees its memory before its processes end. A stopped process sends no event meanwhile.
    for process in idle(runs):
        os.kill(process, signal.SIGSTOP)
    runs.submit(GOOD, examine=False)
    os.kill(server, signal.SIGKILL)


async def test_a_run_whose_primed_server_is_killed_before_its_first_event_runs_again(runs: Runs) -> None:
    await runs.run(GOOD, examine=False)
    await prepared(runs)
    _, primed, *_ = by_age(workers())
    submit_and_kill(runs, primed)
    assert isinstance(await runs.wait_for(Finished, Failed), Finished)


@pytest.fixture
def unprimed_servers(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not prime the servers that start in a test: the next test replaces them."""
    monkeypatch.setattr(runs.supervisor._pool, "_prime", False)


async def assert_answers_twice(runs: Runs) -> None:
    """Assert that the next two saves get their results."""
    for _ in range(2):
        assert isinstance((await runs.run(GOOD, examine=False))[-1], Finished)


@pytest.mark.usefixtures("unprimed_servers")
async def test_the_next_saves_are_answered_after_the_fork_server_was_stopped(runs: Runs) -> None:
    await runs.run(GOOD, examine=False)
    await prepared(runs)
    server, *_ = by_age(workers())
    started = {server, *descendants(server)}
    os.kill(server, signal.SIGSTOP)
    await assert_answers_twice(runs)
    await until(lambda: not any(map(alive, started)))


@pytest.mark.usefixtures("unprimed_servers")
async def test_a_killed_fork_server_is_replaced_and_so_is_its_successor_that_is_stopped_while_it_imports(
    runs: Runs,
) -> None:
    """The run that has not sent an event when its server is killed runs again, in the third server."""
    await runs.run(GOOD, examine=False)
    await prepared(runs)
    server, *_ = by_age(workers())
    started = {server, *descendants(server)}
    pool = runs.supervisor._pool
    (killed,) = pool._workers
    submit_and_kill(runs, server)
    await until(lambda: killed not in pool._workers and bool(pool._workers))
    (stopped,) = pool._workers
    assert stopped._worker is not None
    os.kill(stopped._worker.process.pid, signal.SIGSTOP)
    assert stopped.standby is None, "it is still importing"
    assert isinstance(await runs.wait_for(Finished, Failed), Finished)
    assert stopped.gone
    assert stopped not in pool._workers
    await assert_answers_twice(runs)
    await until(lambda: not any(map(alive, started)))


async def test_closing_does_not_wait_for_a_stopped_fork_server(runs: Runs) -> None:
    await runs.run(GOOD, examine=False)
    (worker,) = [worker._worker for worker in runs.supervisor._pool._workers]
    assert worker is not None
    server = worker.process.pid
    started = {server, *descendants(server)}
    os.kill(server, signal.SIGSTOP)
    async with asyncio.timeout(2):
        await runs.supervisor.close()
    await until(lambda: not any(map(alive, started)))


async def test_workers_that_do_not_fork_serve_one_run_and_are_replaced(tmp_path: Path) -> None:
    runs = Runs(tmp_path, single=True, standbys=1, prime=False)
    await runs.supervisor.start()
    first = workers(b"--single")
    assert isinstance((await runs.run(GOOD, examine=False))[-1], Finished)
    await until(lambda: bool(workers(b"--single") - first))
    await runs.supervisor.close()
    assert workers(b"--single") == set()


async def test_closing_before_a_worker_is_ready_ends_every_process(tmp_path: Path) -> None:
    runs = Runs(tmp_path, single=True)
    await runs.supervisor.start()
    runs.submit(GOOD, examine=False)
    await until(lambda: bool(workers(b"--single")))
    await runs.supervisor.close()
    assert workers(b"--single") == set()
    assert runs.events == []


async def test_without_torch_a_job_fails_with_the_command_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    runs = Runs(tmp_path)
    await runs.supervisor.start()
    for _ in range(2):
        failed = await runs.failure(GOOD)
        assert (failed.stage, failed.blame, failed.message) == ("worker", "compiler", "torch is not installed.")
        assert "pip install torch" in failed.hint
    await runs.supervisor.close()


async def test_a_python_that_is_gone_fails_each_job_with_its_path(tmp_path: Path) -> None:
    runs = Runs(tmp_path, python=ModelPython(str(tmp_path / "bin" / "python"), "--python"))
    await runs.supervisor.start()
    for _ in range(2):
        failed = await runs.failure(GOOD)
        assert failed.message == "The worker process cannot be started: No such file or directory."
        assert str(tmp_path) in failed.hint
    await runs.supervisor.close()
