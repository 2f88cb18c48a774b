"""One worker process and the control channel to it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tcexplore.events import HEADER, PROTOCOL, Failed, ProtocolError, Standby, encode
from tcexplore.events.commands import (
    Hello,
    OpenRun,
    Ready,
    RunExited,
    RunOpened,
    SignalRun,
    WorkerCommand,
    WorkerReport,
    decode_worker_report,
)
from tcexplore.supervisor.output_reader import OutputReader
from tcexplore.supervisor.run_process import RunProcess

CLOSE_S = 2.0
"""Seconds for a worker to exit by itself before it is killed."""

_ROOT = str(Path(__file__).resolve().parents[2])
_START = f"import sys; sys.path.append({_ROOT!r}); from tcexplore.worker.__main__ import main; sys.exit(main())"
"""Not `python -m`, so that a file in the current directory cannot shadow a module that torch imports."""


class WorkerProcess:
    """A worker process, started immediately. `changed` is called whenever one of the public attributes has changed."""

    def __init__(
        self, number: int, changed: Callable[[WorkerProcess], None], *, single: bool = False, prime: bool = True
    ) -> None:
        self.number = number
        self.idle_process: RunProcess | None = None
        """The run process that the next job gets."""
        self.standby: Standby | None = None
        """Set once torch is imported and primed."""
        self.fork_server = False
        self.failure: Failed | None = None
        """Reason why this worker can't serve runs."""
        self.gone = False
        """Whether the process has ended."""
        self._changed = changed
        self._options = [*(["--single"] if single else []), *([] if prime else ["--no-prime"])]
        self._runs: dict[int, RunProcess] = {}
        self._opened = 0
        self._log: list[str] = []
        self._process: Process | None = None
        self._failure_known = False
        self._started = asyncio.Event()
        self._sock, self._theirs = socket.socketpair()
        self._sock.setblocking(False)
        self._task = asyncio.create_task(self._live(), name=f"worker {number}")
        self.open_run()

    async def _live(self) -> None:
        try:
            await self._start()
        except OSError as error:
            self.failure = self._start_failure(f"cannot be started: {error.strerror}")
            self._handle_end(-1)
            return
        finally:
            self._theirs.close()
            self._started.set()
        await self._listen()

    async def _start(self) -> None:
        control = self._theirs.fileno()
        command = [sys.executable, "-P", "-c", _START, "--control-fd", str(control), "--parent", str(os.getpid())]
        read, write = os.pipe()
        self._output = OutputReader(read, self._keep_log)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command, *self._options, stdin=asyncio.subprocess.DEVNULL,
                stdout=write, stderr=write, pass_fds=[control], start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(write)

    def open_run(self) -> None:
        """Provide a run process for the next job."""
        self._opened += 1
        self.idle_process = RunProcess(self._opened)
        self._runs[self._opened] = self.idle_process
        self._send(OpenRun(number=self._opened), self.idle_process.descriptors)
        self.idle_process.close_worker_ends()

    def signal(self, run: RunProcess, number: int) -> None:
        """Send a signal to the process group of a run that has not ended."""
        if run.number not in self._runs or self._process is None:
            return
        if self.fork_server:
            self._send(SignalRun(number=run.number, signal=number))
        elif self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    async def close(self) -> None:
        """End the process and everything it started."""
        await self._started.wait()
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        if not self.fork_server:
            self._kill()
        done, _ = await asyncio.wait({self._task}, timeout=CLOSE_S)
        if not done:
            self._kill()
        await self._task

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _send(self, command: WorkerCommand, descriptors: tuple[int, ...] = ()) -> None:
        # `_listen` notices a worker that is gone.
        with suppress(OSError):
            socket.send_fds(self._sock, [encode(command)], descriptors)

    async def _listen(self) -> None:
        assert self._process is not None
        with suppress(ProtocolError, ConnectionError):
            while body := await _receive(self._sock):
                self._handle(decode_worker_report(body))
        code = await self._process.wait()
        if self.standby is None and not self._failure_known:
            self.failure = self._start_failure(f"ended with status {code}")
        self._handle_end(code)

    def _handle_end(self, code: int) -> None:
        self.gone, self.idle_process = True, None
        self._output.close()
        self._sock.close()
        for run in self._runs.values():
            run.handle_exit(code)
        self._runs = {}
        self._changed(self)

    def _handle(self, report: WorkerReport) -> None:
        match report:
            case Hello(protocol=protocol) if protocol != PROTOCOL:
                self.failure, self.idle_process, self._failure_known = _other_version(protocol), None, True
            case Ready(fork_server=fork_server, standby=standby):
                self.fork_server, self.standby = fork_server, standby
            case RunOpened(number=number) if number in self._runs:
                self._runs[number].ready = True
            case RunExited(number=number, code=code) if number in self._runs:
                run = self._runs.pop(number)
                run.handle_exit(code)
                self.idle_process = None if self.idle_process is run else self.idle_process
            case Failed():
                self.failure, self.idle_process, self._failure_known = report, None, True
        self._changed(self)

    def _keep_log(self, text: str) -> None:
        self._log = [*self._log, text][-20:]

    def _start_failure(self, problem: str) -> Failed:
        return Failed(
            stage="worker", blame="compiler", type="worker", traceback="".join(self._log),
            message=f"The worker process {problem} before it was ready.",
            hint=f"Check whether this works: {sys.executable} -c 'import torch._inductor.compile_fx'",
        )  # fmt: skip


def _other_version(protocol: int) -> Failed:
    return Failed(
        stage="worker",
        blame="compiler",
        type="ProtocolError",
        message=f"The worker speaks protocol {protocol}, this front end {PROTOCOL}: tcexplore has been updated.",
        hint="Restart tcexplore.",
    )


async def _receive(sock: socket.socket) -> bytes:
    """Return the body of one frame, empty if the other side is gone."""
    header = await _exactly(sock, HEADER.size)
    return await _exactly(sock, HEADER.unpack(header)[0]) if header else b""


async def _exactly(sock: socket.socket, size: int) -> bytes:
    loop, received = asyncio.get_running_loop(), b""
    while len(received) < size:
        part = await loop.sock_recv(sock, size - len(received))
        if not part:
            return b""
        received += part
    return received
