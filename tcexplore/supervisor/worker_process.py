"""One worker process and the control channel to it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import get_args

from tcexplore.events import PROTOCOL, Failed, Standby
from tcexplore.events.codec import HEADER, ProtocolError, encode
from tcexplore.events.commands import (
    EarlyImports,
    Hello,
    OpenRun,
    Prepare,
    Ready,
    Rehearsal,
    RunExited,
    RunOpened,
    RunPrimed,
    SignalRun,
    WorkerCommand,
    WorkerReport,
    WorkerStage,
    decode_worker_report,
)
from tcexplore.model_python import OWN_PYTHON, ModelPython, StartedWorker
from tcexplore.supervisor.run_process import DRAIN_S, OutputReader, RunProcess

CLOSE_S = 1.0
"""Seconds for a worker to exit by itself before it is killed."""

ANSWER_S = 2.0
"""Seconds for a fork server to provide a run process, once everything is imported, before it counts as hanging."""

CHECK_S = 0.5
"""Seconds between two checks of a fork server that has not answered."""

STOPPED_CHECKS = 4
"""Number of checks in a row that find a worker stopped while it imports before it counts as hanging."""

STAGES = get_args(WorkerStage)


class WorkerProcess:
    """A worker process: `started`, or else one that starts immediately.

    `changed` is called whenever one of the public attributes has changed.
    """

    def __init__(
        self,
        number: int,
        changed: Callable[[WorkerProcess], None],
        *,
        single: bool = False,
        prime: bool = False,
        python: ModelPython = OWN_PYTHON,
        started: StartedWorker | None = None,
    ) -> None:
        self.number = number
        self.idle: list[RunProcess] = []
        """The run processes that the next jobs get."""
        self.standby: Standby | None = None
        """Set once torch is imported."""
        self.fork_server = False
        """Whether it forks a process for each run."""
        self.failure: Failed | None = None
        """Reason why this worker can't serve runs."""
        self.gone = False
        """Whether the process has ended."""
        self.closed_to_runs = False
        """Whether it can't provide further run processes: it hangs, or it can no longer fork."""
        self.self_priming = False
        """Whether each process that it forks primes itself, so that several should be kept ready."""
        self.prepare_sent = False
        self._prepared_stage: WorkerStage = "loaded"
        """The stage that ends the preparation."""
        self._stage: WorkerStage = "loaded"
        self._hung = False
        self._changed = changed
        self._python = python
        self._runs: dict[int, RunProcess] = {}
        self._killed: set[int] = set()
        """Runs to which SIGKILL was sent."""
        self._lost_standby = False  # whether a process ended while it waited: its rehearsal may have crashed it
        self._lost_imports: EarlyImports | None = None  # the imports in which a process ended
        self._opened = 0
        self._log: list[str] = []
        self._failure_known = False
        self._worker: StartedWorker | None = None
        options = [*(["--single"] if single else []), *(["--prime"] if prime else [])]
        problem = ""
        try:
            self._worker = started or python.start_worker(options)
        except OSError as error:
            problem = f"cannot be started: {error.strerror}"
        self._task = asyncio.create_task(self._live(problem), name=f"worker {number}")
        self.open_run()

    async def _live(self, problem: str) -> None:
        if self._worker is None:
            self.failure = self._start_failure(problem)
            self._handle_end(-1)
        else:
            await self._listen(self._worker)

    @property
    def serving(self) -> bool:
        """Whether it is, or will be, a fork server that provides run processes."""
        return self.fork_server and not self.gone and not self.closed_to_runs

    @property
    def preparing(self) -> bool:
        """Whether it occupies a core with preparations for later runs."""
        if self.gone or self._hung:
            return False
        behind = self.prepare_sent and STAGES.index(self._stage) < STAGES.index(self._prepared_stage)
        return self.standby is None or behind or (self.self_priming and not all(run.primed for run in self.idle))

    def open_run(
        self, rehearsal: Rehearsal | None = None, imports: EarlyImports | None = None, *, warm_up: bool = True,
        for_study: bool = False,
    ) -> None:  # fmt: skip
        """Provide a run process for the next job; it rehearses unless an earlier one ended while it waited."""
        self._opened += 1
        imports = None if imports == self._lost_imports else imports
        run = RunProcess(self._opened, for_study=for_study, imports=imports)
        self.idle.append(run)
        self._runs[self._opened] = run
        rehearsal = None if self._lost_standby else rehearsal
        command = OpenRun(number=self._opened, warm_up=warm_up, rehearsal=rehearsal, imports=imports)
        self._send(command, run.descriptors)
        run.close_worker_ends()
        asyncio.get_running_loop().call_later(ANSWER_S, self._check_opened, run, 1)

    def prepare(self, *, prime: bool) -> None:
        """Have the fork server prepare for later runs, while it serves."""
        self.prepare_sent = True
        self._prepared_stage = "primed" if prime else "imported"
        self._send(Prepare(prime=prime))

    def _check_opened(self, run: RunProcess, checks: int) -> None:
        """Give up on a fork server that does not answer: it is stopped or hangs. An import may take many seconds."""
        if run.pid is not None or run.number not in self._runs or self.gone or self._hung:
            return
        if self._stage == "loaded" and not self._is_stopped():
            checks = STOPPED_CHECKS
        if checks:  # the front end itself may have been stopped: read what has arrived meanwhile
            asyncio.get_running_loop().call_later(CHECK_S, self._check_opened, run, checks - 1)
            return
        self._hung = self.closed_to_runs = self._failure_known = True
        self._discard_idle()
        for number in list(self._killed):
            self._kill_directly(number)
        self._kill_if_unused()
        self._changed(self)

    def _is_stopped(self) -> bool:
        """Return whether a signal stopped the process. Only Linux shows it."""
        if self._worker is None:
            return False
        try:
            return Path(f"/proc/{self._worker.process.pid}/stat").read_bytes().rpartition(b") ")[2][:1] == b"T"
        except OSError:
            return False

    def signal(self, run: RunProcess, number: int) -> None:
        """Send a signal to the process group of a run that has not ended."""
        if run.number not in self._runs or self._worker is None:
            return
        if number == signal.SIGKILL:
            self._killed.add(run.number)
        if not self.fork_server:
            self._signal_group(self._worker.process, number)
        elif not self._hung:
            self._send(SignalRun(number=run.number, signal=number))
        elif number == signal.SIGKILL:
            self._kill_directly(run.number)

    def _kill_directly(self, number: int) -> None:
        """Kill a run of a server that hangs; since it does not reap, the process id is still the run's."""
        run = self._runs.pop(number, None)
        if run is not None and run.pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.handle_exit(-signal.SIGKILL)
        self._kill_if_unused()

    def _kill_if_unused(self) -> None:
        """Kill a server that hangs once no run is left on it: its processes end with it."""
        if not any(run.started and not run.over.is_set() for run in self._runs.values()):
            self._kill()

    def discard(self, run: RunProcess) -> None:
        """End a process that waits."""
        self.idle.remove(run)
        run.discard()

    def _discard_idle(self) -> None:
        for run in self.idle:
            run.discard()
        self.idle = []

    async def close(self) -> None:
        """End the process and everything it started."""
        if self._worker is not None:
            with suppress(OSError):
                self._worker.control.shutdown(socket.SHUT_RDWR)
        if not self.fork_server or self._hung:
            self._kill()
        done, _ = await asyncio.wait({self._task}, timeout=CLOSE_S)
        if not done:
            self._kill()
        await self._task

    def _kill(self) -> None:
        if self._worker is not None:
            self._signal_group(self._worker.process, signal.SIGKILL)

    def _signal_group(self, process: subprocess.Popen[bytes], number: int) -> None:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    def _send(self, command: WorkerCommand, descriptors: tuple[int, ...] = ()) -> None:
        if self._worker is not None:
            with suppress(OSError):  # `_listen` notices a worker that is gone
                socket.send_fds(self._worker.control, [encode(command)], descriptors)

    async def _listen(self, worker: StartedWorker) -> None:
        output = OutputReader(worker.output, self._keep_log)
        exited = asyncio.create_task(_exit_status(worker.process))
        reading = asyncio.create_task(self._read_reports(worker.control))
        await asyncio.wait({exited, reading}, return_when=asyncio.FIRST_COMPLETED)
        # The exit of the process is its end: another process that it forked may hold the socket open.
        await asyncio.wait({reading}, timeout=DRAIN_S)
        if not reading.done():
            reading.cancel()
        code = await exited
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(worker.process.pid, signal.SIGKILL)  # what it started and left
        output.close()
        worker.control.close()
        if self.standby is None and not self._failure_known:
            self.failure = self._start_failure(f"ended with status {code} before it was ready")
        self._handle_end(code)

    async def _read_reports(self, control: socket.socket) -> None:
        with suppress(ProtocolError, ConnectionError):
            while body := await _receive(control):
                self._handle(decode_worker_report(body))

    def _handle_end(self, code: int) -> None:
        self.gone, self.idle = True, []
        for run in self._runs.values():
            run.handle_exit(code)
        self._runs = {}
        self._changed(self)

    def _handle(self, report: WorkerReport) -> None:
        match report:
            case Hello(protocol=protocol) if protocol != PROTOCOL:
                self.failure, self.idle, self._failure_known = _other_version(protocol), [], True
            case Ready():
                self._reach(report)
            case RunOpened(number=number, pid=pid, primed=primed) if number in self._runs:
                self._runs[number].pid = pid
                self._runs[number].primed |= primed
            case RunPrimed(number=number) if number in self._runs and self.standby is not None:
                self._runs[number].primed = True
                self.standby = replace(self.standby, primed=True)
            case RunExited(number=number, code=code) if number in self._runs:
                run = self._runs.pop(number)
                run.handle_exit(code)
                if run in self.idle and run.imports is not None:
                    self._lost_imports = run.imports
                else:
                    self._lost_standby |= run in self.idle
                self.idle = [other for other in self.idle if other is not run]
            case Failed():
                self.failure, self.idle, self._failure_known = report, [], True
        self._changed(self)

    def _reach(self, report: Ready) -> None:
        """Note a new stage, and discard processes that were forked before."""
        environment, source = ("", "") if self._python.own else (self._python.executable, self._python.source)
        self.standby = replace(report.standby, environment=environment, environment_source=source)
        self._stage = report.stage
        self.fork_server = self.fork_server or report.forks
        self.self_priming = report.self_priming
        if report.self_priming:
            self._prepared_stage = report.stage
        if self.fork_server:
            self.closed_to_runs = self.closed_to_runs or not report.forks
            if report.stage != "loaded":
                self._discard_idle()

    def _keep_log(self, text: str) -> None:
        self._log = [*self._log, text][-20:]

    def _start_failure(self, problem: str) -> Failed:
        return Failed(
            stage="worker", blame="compiler", type="worker", traceback="".join(self._log),
            message=f"The worker process {problem}.",
            hint=f"Check whether this works: {self._python.executable} -c 'import torch._inductor.compile_fx'",
        )  # fmt: skip


def _other_version(protocol: int) -> Failed:
    return Failed(
        stage="worker",
        blame="compiler",
        type="ProtocolError",
        message=f"The worker speaks protocol {protocol}, this front end {PROTOCOL}: tcexplore has been updated.",
        hint="Restart tcexplore.",
    )


async def _exit_status(process: subprocess.Popen[bytes]) -> int:
    """Wait in a thread, since asyncio waits only for processes that it started."""
    loop = asyncio.get_running_loop()
    status: asyncio.Future[int] = loop.create_future()

    def wait() -> None:
        code = process.wait()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(status.set_result, code)

    threading.Thread(target=wait, name=f"wait for worker {process.pid}", daemon=True).start()
    return await status


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
