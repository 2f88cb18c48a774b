"""The front end's end of one run process: job and commands go in, events and batches of output come out."""

from __future__ import annotations

import asyncio
import codecs
import io
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from tcexplore.events import (
    Event,
    Failed,
    Finished,
    GradMode,
    GraphCaptured,
    Job,
    Output,
    PhaseStarted,
    RunStage,
    StageStarted,
    clean,
    decode,
)
from tcexplore.events.codec import HEADER, LARGEST, ProtocolError, encode
from tcexplore.events.commands import EarlyImports, Rehearsal, RunCommand
from tcexplore.supervisor.exits import (
    OPTIONAL_FACTS,
    explain_exit,
    explain_invalid_message,
    explain_late_exit,
    explain_stop,
    oom_kills,
)
from tcexplore.supervisor.leading_imports import leading_imports

PAINT_S = 0.1
"""Seconds for the front end to paint the first graph before preparations for later runs take a core."""

REHEARSED_S = 1.0
"""A first graph that takes longer from the eager calls on is not rehearsed: a save may wait for a step of that."""

BATCH_S = 0.04
"""Minimum seconds between two batches of output."""

LARGEST_BATCH = 262_144
"""Maximum characters in a batch; the oldest are dropped and counted in the text."""

LARGEST_REHEARSED = 64 << 20
"""Maximum bytes of the inputs and parameters of a graph that is rehearsed."""

LONGEST_REHEARSED = 30_000
"""Maximum characters of code: the message that opens a process must fit into the socket's buffer."""

DRAIN_S = 1.0
"""Seconds to wait for the last output, since another process may hold the pipes open."""

Emit = Callable[[Event], None]

RunAgain = Callable[[Job], bool]
"""Takes a job whose process was killed before its first event; returns whether the job runs again."""


def _drop(_: Event) -> None:
    pass


def _fail(_: Job) -> bool:
    return False


class RunProcess:
    """The sockets and pipes of one run, and the run itself once it has a job."""

    def __init__(self, number: int, *, for_study: bool = False, imports: EarlyImports | None = None) -> None:
        self.number = number
        self.imports = imports
        """What its process imports before the job arrives."""
        self.for_study = for_study
        """Whether it was opened for a study, while another process waits for the next save."""
        self.pid: int | None = None
        """The process that waits for the job or runs it, once there is one."""
        self.primed = False
        """Whether that process was primed before its job."""
        self.answered = False
        """Whether the first graph has arrived and had time to be painted, or there will be none."""
        self.over = asyncio.Event()
        """Set when the process is gone and its output is read."""
        ours, theirs = socket.socketpair()
        self._sock = ours
        pipes = [os.pipe() for _ in range(3)]
        self._reads = [read for read, _ in pipes]
        self.descriptors = (theirs.detach(), *(write for _, write in pipes))
        """The worker's ends, until `close_worker_ends`."""
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._emit: Emit = _drop
        self._on_change: Callable[[], None] = lambda: None
        self._run_again: RunAgain = _fail
        self._phase: RunStage = "worker"
        self.generates_code = False
        """Whether it generates code for a target that was chosen while it ran."""
        self._optional_fact = ""
        """The fact that is missing if the process ends now; empty while its end fails the run."""
        self._has_event = False
        self._stopped = False
        self._closed_channel = False
        """Whether the process closed its socket, and went on."""
        self._oom_kills = oom_kills()
        """Processes that the system had killed for memory when this one was opened."""
        self._commands: list[RunCommand] = []
        """Commands sent before the connection was open."""
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._outputs: list[OutputReader] = []
        self._painting: asyncio.TimerHandle | None = None
        """Set once the first graph has arrived."""
        self.rehearsal: Rehearsal | None = None
        """The first graph, for the process that waits for the next run; None if its capture took long."""
        self.next_imports: EarlyImports | None = None
        """What the process for the next run should import; None without a graph, or if the imports take no time."""
        self._calls_at = 0.0
        """When the eager calls began, on the event loop's clock."""
        self._grad = False

    def close_worker_ends(self) -> None:
        """Close the descriptors that the worker now has copies of."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = ()

    def start(self, job: Job, emit: Emit, on_change: Callable[[], None], run_again: RunAgain) -> None:
        """Send the job; its events go to `emit`, ending with a `Failed` or a `Finished`, unless it runs again.

        `on_change` is called once the run is `answered`, and when `generates_code` changes.
        """
        self._emit, self._on_change, self._run_again = emit, on_change, run_again
        self._task = asyncio.create_task(self._run(job, self._send_at_once(encode(job))), name=f"run {job.run}")

    def mute(self) -> None:
        """Drop the run's further events."""
        self._emit = _drop

    @property
    def started(self) -> bool:
        """Whether it has a job."""
        return self._task is not None

    def send(self, command: RunCommand) -> bool:
        """Send a command to the run; return False if it has ended."""
        if self.over.is_set() or (self._writer is not None and self._writer.is_closing()):
            return False
        if self._writer is None:
            self._commands.append(command)
        else:
            self._writer.write(encode(command))
        return True

    def mark_stopped(self) -> None:
        """Note that the user stops the run, so that its exit is no failure of the worker."""
        self._stopped = True

    def discard(self) -> None:
        """Close the connection, without a job: the process ends."""
        self._close()

    def handle_exit(self, code: int) -> None:
        """Note that the process is gone."""
        if not self._exit.done():
            self._exit.set_result(code)
        if not self.started:
            self._close()

    def _send_at_once(self, frame: bytes) -> bytes:
        """Send what fits into the socket's buffer, before the event loop paints the new run; return the rest."""
        self._sock.setblocking(False)
        try:
            return frame[self._sock.send(frame) :]
        except OSError:  # the end of the process is noticed when its events are read
            return frame

    async def _run(self, job: Job, unsent: bytes) -> None:
        try:
            reader, writer = await asyncio.open_connection(sock=self._sock)
            self._read_output(job)
            writer.write(unsent)
            for command in self._commands:
                writer.write(encode(command))
            self._writer = writer
            last = await self._read_until_last(reader, job)
            await self._drain(last)
            if last is not None or not (self._killed_early() and self._run_again(job)):
                self._emit(last or self._explain_end(job))
            self._answer()
            self._note_generating(generates=False)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        finally:
            self._close()

    async def _read_until_last(self, reader: asyncio.StreamReader, job: Job) -> Event | None:
        """Return the last event; None if there is none once the process has ended.

        The exit of the process is the end of the run, also if another process has its socket.
        """
        reading = asyncio.create_task(self._read_events(reader, job))
        try:
            either: set[asyncio.Future[Any]] = {reading, self._exit}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await asyncio.wait({reading}, timeout=DRAIN_S)
            return reading.result() if reading.done() else None
        except (ProtocolError, TypeError) as error:
            return explain_invalid_message(error, job)
        finally:
            reading.cancel()

    def _answer(self) -> None:
        if not self.answered:
            self.answered = True
            self._on_change()

    def _note_generating(self, *, generates: bool) -> None:
        if generates != self.generates_code:
            self.generates_code = generates
            self._on_change()

    def _killed_early(self) -> bool:
        """Return whether the process was killed before its first event: its server ended."""
        killed = self._exit.done() and self._exit.result() in (-signal.SIGKILL, -signal.SIGTERM)
        return killed and not (self._has_event or self._stopped)

    def _explain_end(self, job: Job) -> Event:
        crash = self._read_crash()
        if self._stopped:
            return explain_stop(self._phase, job, crash, optional=bool(self._optional_fact))
        if self._closed_channel:
            return explain_invalid_message(ConnectionError("it was closed"), job)
        code = self._exit.result() if self._exit.done() else 0
        now = oom_kills()
        out_of_memory = None if now is None or self._oom_kills is None else now > self._oom_kills
        if self._optional_fact:
            self._emit(explain_late_exit(code, self._optional_fact, job, crash, out_of_memory))
            return Finished(run=job.run)
        return explain_exit(code, job, crash, out_of_memory)

    def _read_output(self, job: Job) -> None:
        def emit_output(stream: Literal["stdout", "stderr"]) -> Callable[[str], None]:
            return lambda text: self._emit(Output(run=job.run, stream=stream, text=text))

        stdout, stderr, _ = self._reads
        self._outputs = [OutputReader(stdout, emit_output("stdout")), OutputReader(stderr, emit_output("stderr"))]
        del self._reads[:2]

    async def _read_events(self, reader: asyncio.StreamReader, job: Job) -> Event | None:
        """Emit events until the run's last one, and return that; return None if the process closes the socket first."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (size,) = HEADER.unpack(await reader.readexactly(HEADER.size))
                if size > LARGEST:
                    raise ProtocolError(f"a message of {size} bytes")
                event = decode(await reader.readexactly(size))
                self._has_event = True
                if isinstance(event, Failed | Finished):
                    return event
                if isinstance(event, StageStarted):
                    self._optional_fact = event.fact
                    continue
                if isinstance(event, PhaseStarted) and event.phase:
                    self._phase = event.phase
                    self._optional_fact = OPTIONAL_FACTS.get(event.phase, self._optional_fact)
                    self._note_generating(generates=event.phase == "switching")
                self._emit(event)
                self._note_rehearsal(event)
                if isinstance(event, GraphCaptured):
                    self.next_imports = leading_imports(job)
                if isinstance(event, GraphCaptured) and self._painting is None:
                    self._painting = asyncio.get_running_loop().call_later(PAINT_S, self._answer)
                elif self._phase in ("timing", "answering"):
                    self._answer()
        return None

    def _note_rehearsal(self, event: Event) -> None:
        """Keep the first graph if its rehearsal costs little: time, memory and a short message."""
        now = asyncio.get_running_loop().time()
        if isinstance(event, GradMode):
            self._calls_at, self._grad = now, event.enabled
        elif isinstance(event, GraphCaptured) and self._painting is None and now - self._calls_at < REHEARSED_S:
            inputs = tuple(node for node in event.nodes if node.op == "placeholder")
            small = sum(node.tensor_bytes or 0 for node in inputs) < LARGEST_REHEARSED
            if small and len(event.code) < LONGEST_REHEARSED:
                self.rehearsal = Rehearsal(code=event.code, inputs=inputs, grad=self._grad)

    async def _drain(self, last: Event | None) -> None:
        """Wait until the process is gone and its output is read, at most `DRAIN_S` after its last event."""
        if last is None and not await self._has_exited(DRAIN_S):
            self._closed_channel = True
            self._kill()
            await self._exit
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await asyncio.shield(self._exit)
                for output in self._outputs:
                    await output.closed.wait()

    async def _has_exited(self, seconds: float) -> bool:
        """Return whether the process is gone, after waiting so long for it."""
        await asyncio.wait({self._exit}, timeout=seconds)
        return self._exit.done()

    def _kill(self) -> None:
        """Kill a process that has closed its socket, so that nothing more can be known about its run."""
        with suppress(ProcessLookupError, PermissionError):
            if self.pid is not None:
                os.killpg(self.pid, signal.SIGKILL)

    def _read_crash(self) -> str:
        """Return the traceback that faulthandler wrote, if any."""
        os.set_blocking(self._reads[0], False)
        with suppress(BlockingIOError):
            return os.read(self._reads[0], 65_536).decode("utf-8", "replace")
        return ""

    def _close(self) -> None:
        for output in self._outputs:
            output.close()
        for descriptor in self._reads:
            os.close(descriptor)
        self._reads = []
        self._sock.close()
        self.over.set()


class OutputReader:
    """Reads a pipe until it is closed, and calls `emit` with cleaned text."""

    def __init__(self, descriptor: int, emit: Callable[[str], None]) -> None:
        self._descriptor = descriptor
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=False)
        self._batch: list[str] = []
        self._size = 0
        self._dropped = 0
        self._timer: asyncio.TimerHandle | None = None
        self.closed = asyncio.Event()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def close(self) -> None:
        """Stop reading, and flush."""
        if self.closed.is_set():
            return
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._add(self._decoder.decode(b"", final=True))
        self.flush()
        self.closed.set()

    def _read(self) -> None:
        try:
            part = os.read(self._descriptor, 65_536)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part:
            self.close()
            return
        self._add(self._decoder.decode(part))
        if self._timer is None:
            self._timer = self._loop.call_later(BATCH_S, self.flush)

    def _add(self, text: str) -> None:
        self._batch.append(text)
        self._size += len(text)
        while self._size - len(self._batch[0]) > LARGEST_BATCH:
            oldest = self._batch.pop(0)
            self._size -= len(oldest)
            self._dropped += len(oldest)

    def flush(self) -> None:
        """Emit the batch."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        text, dropped = "".join(self._batch), self._dropped
        self._batch, self._size, self._dropped = [], 0, 0
        if dropped:
            text = f"[{dropped:,} characters dropped: too much output at once]\n" + text
        if text:
            self._emit(clean(text))
