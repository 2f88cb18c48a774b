"""The fork server on its control socket, with priming and an accelerator that are simulated."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from itertools import repeat
from typing import Any

import pytest

from tcexplore.events import Standby
from tcexplore.events.codec import encode
from tcexplore.events.commands import (
    OpenRun,
    Prepare,
    Ready,
    RunExited,
    RunOpened,
    RunPrimed,
    SignalRun,
    WorkerCommand,
    WorkerReport,
    decode_worker_report,
)
from tcexplore.worker import fork_policy, priming
from tcexplore.worker.fork_policy import ForkPolicy
from tcexplore.worker.fork_server import ForkServer
from tcexplore.worker.link import receive
from tcexplore.worker.loading import LoadedWorker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")

STANDBY = Standby(torch="2.13.0", python="3.11.7", device="cpu", seconds=1.0)
PATIENCE_S = 20.0


class Server:
    """The front end's end of a fork server."""

    def __init__(self, policy: ForkPolicy) -> None:
        self.control, theirs = socket.socketpair()
        self.control.settimeout(PATIENCE_S)
        self.pid = fork_policy.fork()
        if self.pid == 0:
            try:
                os.setsid()
                self.control.close()
                ForkServer(theirs, LoadedWorker(policy, STANDBY, threads=1)).serve()
            finally:
                os._exit(0)
        theirs.close()
        self.runs: dict[int, socket.socket] = {}

    def send(self, command: WorkerCommand) -> None:
        self.control.sendall(encode(command))

    def open_run(self, number: int) -> None:
        self.runs[number], theirs = socket.socketpair()
        pipes = [os.pipe() for _ in range(3)]
        descriptors = [theirs.fileno(), *(write for _, write in pipes)]
        socket.send_fds(self.control, [encode(OpenRun(number=number))], descriptors)
        theirs.close()
        for read, write in pipes:
            os.close(read)
            os.close(write)

    def report(self) -> WorkerReport:
        frame = receive(self.control)
        assert frame is not None
        return decode_worker_report(frame.body)

    def until(self, kind: type[Any], condition: Callable[[Any], bool] = lambda _: True) -> Any:
        """Return the first report of a type that meets a condition."""
        while not (isinstance(report := self.report(), kind) and condition(report)):
            pass
        return report

    def close(self) -> None:
        self.control.close()
        os.waitpid(self.pid, 0)
        for run in self.runs.values():
            run.close()


class FakeProbe:
    """A probe with a result."""

    def __init__(self, result: Callable[[], str]) -> None:
        self.result = result


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def steps(*_: Any) -> Generator[float]:
        yield 0

    def start_server(accelerator: str = "", imports: Any = steps, probe: Callable[[], str] = lambda: "H100") -> Server:
        monkeypatch.setattr(priming, "import_steps", imports)
        monkeypatch.setattr(fork_policy, "start_probe", lambda: FakeProbe(probe))
        servers.append(Server(ForkPolicy(forks=True, accelerator=accelerator)))
        return servers[-1]

    monkeypatch.setattr(priming, "prime_steps", steps)
    monkeypatch.setattr(priming, "warm_steps", steps)
    monkeypatch.setattr(priming, "prime_fork_server", lambda: None)
    monkeypatch.setattr(fork_policy, "accelerator_initialized", lambda: False)
    yield start_server
    for server in servers:
        server.close()


def test_runs_are_opened_while_it_prepares(start: Callable[..., Server]) -> None:
    server = start(imports=lambda *_: repeat(None))
    server.send(Prepare(prime=True))
    server.open_run(1)
    assert server.until(RunOpened) == RunOpened(number=1, pid=server_child(server))
    server.send(SignalRun(number=1, signal=signal.SIGKILL))
    assert server.until(RunExited) == RunExited(number=1, code=-signal.SIGKILL)


def server_child(server: Server) -> int:
    with open(f"/proc/{server.pid}/task/{server.pid}/children") as children:
        return int(children.read().split()[0])


def test_with_an_accelerator_each_process_primes_itself(start: Callable[..., Server]) -> None:
    server = start("H100")
    server.send(Prepare(prime=True))
    assert server.until(Ready) == Ready(stage="imported", standby=STANDBY, forks=True, self_priming=True)
    for number in (1, 2):
        server.open_run(number)
        opened, primed = sorted([server.report(), server.report()], key=lambda report: type(report).__name__)
        assert isinstance(opened, RunOpened)
        assert (opened.primed, primed) == (False, RunPrimed(number=number))
    server.runs[1].close()
    assert server.until(RunExited) == RunExited(number=1, code=0)


def test_a_study_primes_nothing(start: Callable[..., Server]) -> None:
    server = start("H100")
    server.send(Prepare(prime=False))
    assert not server.until(Ready).self_priming
    server.open_run(1)
    server.until(RunOpened)
    server.runs[1].close()
    assert isinstance(server.report(), RunExited)


def test_children_that_cannot_use_the_accelerator_end_the_forking(start: Callable[..., Server]) -> None:
    def fail() -> str:
        raise RuntimeError("CUDA error: initialization error")

    server = start("H100", probe=fail)
    server.send(Prepare(prime=True))
    ready = server.until(Ready)
    assert (ready.forks, ready.self_priming) == (False, False)
    assert "initialization error" in ready.standby.fork_problem


def test_without_an_accelerator_a_primed_server_takes_over_and_is_replaced(start: Callable[..., Server]) -> None:
    server = start()
    server.send(Prepare(prime=True))
    assert server.until(Ready).stage == "imported"
    assert server.until(Ready).standby.primed
    primed = server_child(server)
    server.open_run(1)
    opened = server.until(RunOpened)
    assert opened.primed
    server.send(SignalRun(number=1, signal=signal.SIGKILL))
    assert server.until(RunExited) == RunExited(number=1, code=-signal.SIGKILL)
    server.open_run(2)
    assert server.until(RunOpened).primed
    os.kill(primed, signal.SIGKILL)
    assert server.until(RunExited) == RunExited(number=2, code=-signal.SIGKILL)
    assert [server.until(Ready).stage for _ in range(2)] == ["imported", "primed"]
    assert server_child(server) != primed


def test_nothing_is_left_once_the_front_end_is_gone(start: Callable[..., Server]) -> None:
    server = start()
    server.send(Prepare(prime=True))
    server.until(Ready, lambda ready: ready.stage == "primed")
    server.open_run(1)
    opened = server.until(RunOpened)
    server.control.shutdown(socket.SHUT_RDWR)
    os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
    with suppress(ProcessLookupError):
        os.kill(opened.pid, 0)
        raise AssertionError
