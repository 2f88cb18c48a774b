"""A session that answers questions about its model file over a local socket, always for the text that is on disk."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Protocol

from tcexplore import events as ev
from tcexplore.answers.answer import Fields, render
from tcexplore.answers.questions import QUESTIONS, Asked, Question, QuestionError, answer, asked_of
from tcexplore.answers.session_socket import (
    LARGEST,
    PROTOCOL,
    Message,
    encoded,
    is_own_peer,
    is_used,
    socket_path,
)
from tcexplore.events.codec import HEADER, encode
from tcexplore.events.commands import RecompileQuery, RunCommand
from tcexplore.events.input_specs import split_arguments
from tcexplore.report.json_report import report
from tcexplore.session import Session, Snapshot
from tcexplore.session.snapshot import end_snapshot

if TYPE_CHECKING:
    import socket

WATCH_S = 0.02
"""Seconds for the watch to notice that a local module was saved right before a question."""

RERUN_S = 2.0
"""Seconds until a file that changed is run again, if the watch did not notice."""

TIMED_S = 120.0
"""Maximum seconds to wait for times; an answer then has those that are known."""

FIRST_NUMBER = 1_000_000
"""Number of the first recompile query, apart from those of the app."""

SETTLED = ("faster", "slower", "no difference", "undecided")
"""Verdicts after which a timing is answered."""


class Program(Protocol):
    """What a session needs of the app, or of the engine without an app."""

    @property
    def session(self) -> Session: ...

    @property
    def machine(self) -> ev.Standby | None: ...

    def source_on_disk(self) -> str | None:
        """Return the text of the model file; None if it cannot be read."""
        ...

    def rerun(self) -> None:
        """Run the file as it is on disk."""
        ...

    def measure(self) -> None:
        """Make sure that the newest run is timed."""
        ...

    def send(self, command: RunCommand) -> bool:
        """Send a command to the newest run; return False if no run can take it."""
        ...


@dataclass(slots=True)
class SessionServer:
    """Answers questions about the newest run. `update` must be called after each change of the session."""

    program: Program
    file: str
    """The model file."""
    options: Callable[[], Fields]
    """How it is run: a question about a run with other options is refused."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _server: asyncio.Server | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: count(FIRST_NUMBER))

    def update(self) -> None:
        """Tell the questions that wait that the session has changed."""
        self._changed.set()

    async def start(self) -> bool:
        """Open the socket; return False if a session of this file is running already. Raises `OSError`."""
        path = socket_path(self.file)
        if is_used(path):
            if await _is_alive(path):
                return False
            path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, path, limit=LARGEST)
        finally:
            os.umask(before)
        return True

    async def close(self) -> None:
        """Close the socket and remove it."""
        if self._server is None:
            return
        with contextlib.suppress(OSError):
            socket_path(self.file).unlink(missing_ok=True)
        self._server.close()
        self._server = None

    # ---- one question

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection: socket.socket = writer.get_extra_info("socket")
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            if not is_own_peer(connection):
                return
            line = await reader.readline()
            if not line:
                return  # only a look whether the session is alive
            asked = asyncio.ensure_future(self._answered(line, writer))
            gone = asyncio.ensure_future(reader.read(1))
            await asyncio.wait({asked, gone}, return_when=asyncio.FIRST_COMPLETED)
            gone.cancel()
            if not asked.done():  # the one who asked has gone
                asked.cancel()
                return
            writer.write(encoded(asked.result()))
            await writer.drain()

    async def _answered(self, line: bytes, writer: asyncio.StreamWriter) -> Message:
        try:
            message = json.loads(line)
            if message["protocol"] != PROTOCOL:
                return {"refused": "the session is of another version of tcexplore"}
        except (ValueError, KeyError, TypeError) as error:
            return {"refused": f"the question cannot be read: {type(error).__name__}"}
        return await self.answer(message, lambda text: writer.write(encoded({"progress": text})))

    async def answer(self, message: Message, say: Callable[[str], None]) -> Message:
        """Return the reply to a question; `say` gets what it waits for."""
        try:
            if message["options"] not in (None, self.options()):
                return {"refused": "the session runs the file with other options"}
            if message.get("whole"):
                return await self._whole(say)
            asked = asked_of(tuple(message["words"]), message["line"], message["slowest"])
        except QuestionError as error:
            return {"bad_question": str(error)}
        except (ValueError, KeyError, TypeError) as error:
            return {"refused": f"the question cannot be read: {type(error).__name__}"}
        return await self._text(asked, message, say)

    async def _whole(self, say: Callable[[str], None]) -> Message:
        """Return the whole run of the text on disk, as far as its structure is known."""
        await self._current(say)
        run = end_snapshot(await self._until(lambda known: known.complete, say))
        machine = self.program.machine
        parts = {"run": run, "machine": machine}
        return {name: await asyncio.to_thread(_wire, part) for name, part in parts.items() if part is not None}

    async def _text(self, asked: Asked, message: Message, say: Callable[[str], None]) -> Message:
        question = QUESTIONS[asked.question]
        run = await self._known(question, asked, quick=bool(message.get("quick")), say=say)
        before = self._previous(run) if question.name == "diff" and not message.get("before") else None
        facts = await asyncio.to_thread(report, run, self.program.machine, keys=question.keys)
        if message.get("before"):
            facts["before"] = message["before"]
        elif before is not None:
            facts["before"] = await asyncio.to_thread(report, before, None, keys=question.keys)
        if run.complete:
            facts["status"] = "ok"  # only timing continues
        known = answer(facts, asked)
        text = render(
            known, message["command"], as_json=message["json"], max_tokens=message["max_tokens"], skip=message["skip"]
        )
        return {"text": text, "problem": known.problem, "blame": run.failure.blame if run.failure else None}

    async def _known(self, question: Question, asked: Asked, *, quick: bool, say: Callable[[str], None]) -> Snapshot:
        """Return the run of the text on disk once it has what the question needs."""
        await self._current(say)
        run = await self._until(lambda known: known.complete, say)
        if question.needs_program and run.failure is None:
            return await self._recompile_answers(asked, say)
        if question.timed and not quick and run.failure is None:
            self.program.measure()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TIMED_S):
                    return await self._until(_is_timed, say)
            return self.program.session.newest or run
        return run

    async def _current(self, say: Callable[[str], None]) -> None:
        """Wait until the newest run is that of the text on disk."""
        await asyncio.sleep(WATCH_S)
        text = self.program.source_on_disk()
        if text is None or self._newest_is(text):
            return
        say("the file changed")
        try:
            async with asyncio.timeout(RERUN_S):
                while not self._newest_is(text):
                    await self._change()
        except TimeoutError:
            self.program.rerun()

    def _newest_is(self, text: str) -> bool:
        newest = self.program.session.newest
        return newest is not None and newest.source == text

    async def _until(self, reached: Callable[[Snapshot], bool], say: Callable[[str], None]) -> Snapshot:
        """Return the newest run once it has come this far."""
        phase = ""
        while True:
            newest = self.program.session.newest
            if newest is not None and (reached(newest) or newest.failure is not None):
                return newest
            if newest is not None and newest.phase != phase:
                phase = newest.phase
                say(phase)
            await self._change()

    async def _recompile_answers(self, asked: Asked, say: Callable[[str], None]) -> Snapshot:
        """Return the newest run with the answers to the recompile queries last."""
        numbers = set()
        for inputs in asked.arguments:
            number = next(self._numbers)
            if self.program.send(RecompileQuery(number=number, inputs=tuple(split_arguments(inputs)))):
                numbers.add(number)

        def answered(run: Snapshot) -> bool:
            return numbers <= {known.number for known in run.recompile_answers}

        return await self._until(answered, say)

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _previous(self, run: Snapshot) -> Snapshot | None:
        """Return the last run of other texts that compiled: a run for timing has the texts of the one before."""
        runs = (known for known in reversed(self.program.session.runs) if known.run < run.run and known.compiled)
        return next((known for known in runs if (known.source, known.sources) != (run.source, run.sources)), None)


def _is_timed(run: Snapshot) -> bool:
    """Return whether a run is timed and its calls are profiled, or is not going to be."""
    structure_only = "--quick" in run.timing_skipped
    if run.status != "running" or (run.timing_skipped and not structure_only):
        return True
    if run.is_script:
        return run.phase == "answering" and not structure_only
    return run.timing is not None and run.timing.verdict in SETTLED and run.call_profile is not None


def _wire(part: Snapshot | ev.Standby) -> str:
    return encode(part)[HEADER.size :].decode()


async def _is_alive(path: os.PathLike[str]) -> bool:
    """Return whether a process listens on a socket."""
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    writer.close()
    return True
