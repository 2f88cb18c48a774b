"""The front end's end of one run's process: its job on the way in, its events and output on the way out."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from tcexplore.events import (
    HEADER,
    LARGEST,
    Event,
    Failed,
    Finished,
    Job,
    Output,
    PhaseStarted,
    ProtocolError,
    decode,
    encode,
)
from tcexplore.events.commands import PauseTiming, RecompileQuery, Retarget
from tcexplore.supervisor.exits import explain, garbled, stopped
from tcexplore.supervisor.output_reader import OutputReader

FULL_SPEED_S = 60.0
"""Seconds of timing in which a disturbance would show; later on a run is timed now and then only."""

DRAIN_S = 1.0
"""Seconds to wait for the last words in pipes that something else may be holding open."""

Emit = Callable[[Event], None]


class RunProcess:
    """One place for a run.

    `descriptors` are the worker's ends, to be closed here once they were sent. A seat is `ready` when a process
    waits on it. `exited` is its exit status, once there is one.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.ready = False
        self.job: Job | None = None
        self.over = asyncio.Event()
        """Set when the process is gone and its last words are read."""
        ours, theirs = socket.socketpair()
        self._sock = ours
        pipes = [os.pipe() for _ in range(3)]
        self._reads = [read for read, _ in pipes]
        self.descriptors = (theirs.detach(), *(write for _, write in pipes))
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._emit: Emit | None = None
        self._phase, self._since = "worker", monotonic()
        self._stopped = False
        self._held = False
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._outputs: list[OutputReader] = []

    def close_worker_ends(self) -> None:
        """The worker has its own copies now."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = ()

    def give(self, job: Job, emit: Emit) -> None:
        """Hand over the job; its events go to `emit`, the last of them a `Failed` or a `Finished`."""
        self.job, self._emit = job, emit
        self._task = asyncio.create_task(self._follow(job), name=f"run {job.run}")

    def mute(self) -> None:
        """Nobody wants this run's events any more."""
        self._emit = None

    @property
    def timing(self) -> bool:
        """Whether the run is being timed, and has been for no longer than `FULL_SPEED_S`."""
        return self._phase == "timing" and not self.over.is_set() and monotonic() - self._since < FULL_SPEED_S

    def hold(self, held: bool) -> None:
        """Have the run pause its timing, or go on with it."""
        changed, self._held = held != self._held, held
        if changed and self._writer is not None and not self._writer.is_closing():
            self._writer.write(encode(PauseTiming(held=held)))

    def switch(self, target: str) -> bool:
        """Have the run lower what it captured for another target, too; False where there is no run to hear it."""
        if self._writer is None or self._writer.is_closing():
            return False
        self._writer.write(encode(Retarget(target=target)))
        return True

    def ask(self, question: RecompileQuery) -> bool:
        """Have the run answer a question; False where there is no run to hear it."""
        if self._writer is None or self._writer.is_closing():
            return False
        self._writer.write(encode(question))
        return True

    def stop(self) -> None:
        """The user wants it to end: its exit, which is to follow, is no failure of the worker."""
        self._stopped = True

    def exited(self, code: int) -> None:
        """The process is gone."""
        if not self._exit.done():
            self._exit.set_result(code)
        if self._task is None:
            self._close()

    async def _follow(self, job: Job) -> None:
        try:
            reader, writer = await asyncio.open_connection(sock=self._sock)
            self._listen(job)
            writer.write(encode(job))
            if self._held:
                writer.write(encode(PauseTiming(held=True)))
            self._writer = writer
            last = await self._last_event(reader, job)
            await self._drain(last)
            self._pass_on(last or self._why_it_ended(job))
            self._writer = None
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        finally:
            self._close()

    async def _last_event(self, reader: asyncio.StreamReader, job: Job) -> Event | None:
        try:
            return await self._events(reader)
        except (ProtocolError, TypeError) as error:
            return garbled(error, job)

    def _why_it_ended(self, job: Job) -> Event:
        crash = self._crash()
        if self._stopped:
            return stopped(self._phase, job, crash)
        return explain(self._exit.result() if self._exit.done() else 0, job, crash)

    def _listen(self, job: Job) -> None:
        def take(stream: str) -> Callable[[str], None]:
            return lambda text: self._pass_on(Output(run=job.run, stream=stream, text=text))

        stdout, stderr, _ = self._reads
        self._outputs = [OutputReader(stdout, take("stdout")), OutputReader(stderr, take("stderr"))]
        del self._reads[:2]

    async def _events(self, reader: asyncio.StreamReader) -> Event | None:
        """Pass on events until the process closes the channel or says its last; returns that last one."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (size,) = HEADER.unpack(await reader.readexactly(HEADER.size))
                if size > LARGEST:
                    raise ProtocolError(f"a message of {size} bytes")
                event = decode(await reader.readexactly(size))
                if isinstance(event, Failed | Finished):
                    return event
                self._pass_on(event)
        return None

    async def _drain(self, last: Event | None) -> None:
        """Wait for the process to be gone and its output to be read: at most `DRAIN_S` after its last event."""
        if last is None:
            await self._exit
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await asyncio.shield(self._exit)
                for output in self._outputs:
                    await output.closed.wait()

    def _crash(self) -> str:
        """What Python said of its stack when it was struck down."""
        os.set_blocking(self._reads[0], False)
        with suppress(BlockingIOError):
            return os.read(self._reads[0], 65_536).decode("utf-8", "replace")
        return ""

    def _pass_on(self, event: Event) -> None:
        if isinstance(event, PhaseStarted):
            self._phase, self._since = event.phase, monotonic()
        if self._emit is not None:
            self._emit(event)

    def _close(self) -> None:
        for output in self._outputs:
            output.close()
        for descriptor in self._reads:
            os.close(descriptor)
        self._reads = []
        self._sock.close()
        self.over.set()
