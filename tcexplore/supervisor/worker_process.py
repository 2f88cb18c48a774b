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
from tcexplore.events.commands import Exited, Hello, Order, Ready, Report, Seated, Signal, decode_report
from tcexplore.events.commands import Seat as SeatOrder
from tcexplore.supervisor.output_reader import OutputReader
from tcexplore.supervisor.run_process import RunProcess

CLOSE_S = 2.0
"""Seconds that a worker gets to end by itself, before it is killed."""

_ROOT = str(Path(__file__).resolve().parents[2])
_START = f"import sys; sys.path.append({_ROOT!r}); from tcexplore.worker.__main__ import main; sys.exit(main())"
"""Started this way, and not with -m, so that the folder we stand in cannot replace a module of torch's."""


class WorkerProcess:
    """A worker process, from its start, which is at once, to its end.

    `changed` is called whenever something about it has changed. `spare` is the seat that the next run takes;
    `standby` is known once torch is imported and primed; `failure` is why there will be no run, and `gone` tells
    that the process has ended.
    """

    def __init__(self, number: int, changed: Callable[[WorkerProcess], None], *, single: bool = False) -> None:
        self.number = number
        self.spare: RunProcess | None = None
        self.standby: Standby | None = None
        self.template = False
        self.failure: Failed | None = None
        self.gone = False
        self._changed = changed
        self._single = single
        self._seats: dict[int, RunProcess] = {}
        self._numbers = 0
        self._log: list[str] = []
        self._process: Process | None = None
        self._said_why = False
        self._up = asyncio.Event()
        self._sock, self._theirs = socket.socketpair()
        self._sock.setblocking(False)
        self._task = asyncio.create_task(self._live(), name=f"worker {number}")
        self.offer()

    async def _live(self) -> None:
        try:
            await self._start()
        except OSError as error:
            self.failure = self._never_ready(f"cannot be started: {error.strerror}")
            self._over(-1)
            return
        finally:
            self._theirs.close()
            self._up.set()
        await self._listen()

    async def _start(self) -> None:
        control = self._theirs.fileno()
        command = [sys.executable, "-P", "-c", _START, "--control-fd", str(control), "--parent", str(os.getpid())]
        read, write = os.pipe()
        self._output = OutputReader(read, self._keep_log)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command, *(["--single"] if self._single else []), stdin=asyncio.subprocess.DEVNULL,
                stdout=write, stderr=write, pass_fds=[control], start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(write)

    def offer(self) -> None:
        """Have a process wait for the next run."""
        self._numbers += 1
        self.spare = RunProcess(self._numbers)
        self._seats[self._numbers] = self.spare
        self._send(SeatOrder(seat=self._numbers), self.spare.descriptors)
        self.spare.close_worker_ends()

    def signal(self, seat: RunProcess, number: int) -> None:
        """Send a signal to the process group of a seat's process, if that is not over yet."""
        if seat.number not in self._seats or self._process is None:
            return
        if self.template:
            self._send(Signal(seat=seat.number, number=number))
        elif self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    async def close(self) -> None:
        """End the process and all it started."""
        await self._up.wait()
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        if not self.template:
            self._kill()
        done, _ = await asyncio.wait({self._task}, timeout=CLOSE_S)
        if not done:
            self._kill()
        await self._task

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _send(self, order: Order, descriptors: tuple[int, ...] = ()) -> None:
        # A worker that is gone is noticed where its reports are read.
        with suppress(OSError):
            socket.send_fds(self._sock, [encode(order)], descriptors)

    async def _listen(self) -> None:
        assert self._process is not None
        with suppress(ProtocolError, ConnectionError):
            while body := await _receive(self._sock):
                self._take(decode_report(body))
        code = await self._process.wait()
        if self.standby is None and not self._said_why:
            self.failure = self._never_ready(f"ended with status {code}")
        self._over(code)

    def _over(self, code: int) -> None:
        self.gone, self.spare = True, None
        self._output.close()
        self._sock.close()
        for seat in self._seats.values():
            seat.exited(code)
        self._seats = {}
        self._changed(self)

    def _take(self, report: Report) -> None:
        match report:
            case Hello(protocol=protocol) if protocol != PROTOCOL:
                self.failure, self.spare, self._said_why = _other_version(protocol), None, True
            case Ready(template=template, standby=standby):
                self.template, self.standby = template, standby
            case Seated(seat=number) if number in self._seats:
                self._seats[number].ready = True
            case Exited(seat=number, code=code) if number in self._seats:
                seat = self._seats.pop(number)
                seat.exited(code)
                self.spare = None if self.spare is seat else self.spare
            case Failed():
                self.failure, self.spare, self._said_why = report, None, True
        self._changed(self)

    def _keep_log(self, text: str) -> None:
        self._log = [*self._log, text][-20:]

    def _never_ready(self, what: str) -> Failed:
        return Failed(
            stage="worker", blame="compiler", type="worker", traceback="".join(self._log),
            message=f"The worker process {what}, before it was ready.",
            hint=f"Does this work? {sys.executable} -c 'import torch._inductor.compile_fx'",
        )  # fmt: skip


def _other_version(protocol: int) -> Failed:
    return Failed(
        stage="worker",
        blame="compiler",
        type="ProtocolError",
        message=f"The worker speaks protocol {protocol}, this front end {PROTOCOL}: tcexplore was changed meanwhile.",
        hint="Start tcexplore again.",
    )


async def _receive(sock: socket.socket) -> bytes:
    """One frame's body; empty when the other side is gone."""
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
