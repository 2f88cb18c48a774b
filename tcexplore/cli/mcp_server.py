"""The tools and resources of `tcexplore mcp`. The only module that imports the package `mcp`.

Each file that is asked about gets a session, so that the answer after an edit takes about as long as the compile. Only
files below the folder in which the server was started are run, under the same rules as on the command line: no
environment of a repository that the user has not trusted.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from tcexplore import __version__
from tcexplore.answers.questions import QUESTIONS
from tcexplore.answers.session_server import SessionServer
from tcexplore.answers.session_socket import Message, NoSessionError, ask_session, run_options
from tcexplore.answers.session_socket import question as question_message
from tcexplore.cli.file_argument import BadFileError, check_path, model_python, split
from tcexplore.cli.options import Request
from tcexplore.cli.session_command import WatchedProgram
from tcexplore.model_python import OWN_PYTHON

MOST_SESSIONS = 3
"""Files with a session at the same time; that of the file asked about longest ago ends."""

MAX_CHARS = 8000
"""Characters that a tool returns of a printed report, the last ones: results come before progress, verdicts last."""

ANSWER_S = 600.0
"""Maximum seconds for an answer of a session of another process."""

INSTRUCTIONS = """\
tcexplore shows what torch.compile does with a PyTorch file. Use `ask` first: it answers in at most 2,000 tokens, and
after an edit of the file within about the time of its compile. Parts of a run have stable ids: b- break, g- guard,
k- kernel, o- op, l- line, m- module, f- fix. `ask` with an id as its question tells everything about one.
`fix` tries and verifies edits that remove graph breaks. `study` makes many runs and takes minutes."""

_ASK = "Answer one question about FILE in a few lines. Questions:"
_FIX = "For each graph break, try edits that remove it, each verified in a separate process. It takes minutes."
_STUDY = (
    "Make many runs: modes (which mode and backend is fastest), sweep (sizes), recompiles (varied inputs), bisect "
    "(which compiler stage crashes or is wrong), artifacts (saved code). It takes minutes."
)
_CHECK = "Run FILE once, and compare with limits, such as --max-breaks 0 or --min-speedup 1.2."

_LOOKS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)

File = Annotated[str, Field(description="Python file or FILE:NAME; for `ask` also a trace or a saved JSON report")]
Words = Annotated[list[str], Field(description="ids, names, or inputs such as 'f32[33, 512]'")]
Options = Annotated[list[str], Field(description="options as on the command line")]
StudyName = Literal["modes", "sweep", "recompiles", "bisect", "artifacts"]

Say = Callable[[str], None]


class RefusedError(ToolError):
    """A tool was called with something that it does not do; the message says why."""


async def serve(request: Request) -> None:
    """Serve on standard input and output until the client closes them."""
    tools = Tools(request, os.getcwd())
    try:
        await make_server(tools).run_stdio_async()
    finally:
        await tools.close()


def make_server(tools: Tools) -> MCPServer[Any]:
    """Return the server with its tools and resources."""
    server: MCPServer[Any] = MCPServer(
        "tcexplore", version=__version__, instructions=INSTRUCTIONS, log_level="ERROR"
    )  # fmt: skip
    questions = "\n".join(f"- {' '.join((one.name, one.usage))}: {one.summary}" for one in QUESTIONS.values())
    for tool, description, hints in (
        (tools.ask, f"{_ASK}\n{questions}", _LOOKS), (tools.fix, _FIX, _WRITES), (tools.study, _STUDY, _LOOKS),
        (tools.check, _CHECK, _LOOKS),
    ):  # fmt: skip
        server.add_tool(tool, description=description, annotations=hints, structured_output=False)
    server.resource("tcexplore://source/{id}", name="source", mime_type="text/plain",
                    description="source of a kernel of a session, by its id")(tools.source)  # fmt: skip
    server.resource("tcexplore://part/{id}", name="part", mime_type="text/plain",
                    description="all facts about a part of a session, by its id")(tools.part)  # fmt: skip
    return server


class Tools:
    """The tools, and the sessions of the files that were asked about."""

    def __init__(self, request: Request, root: str) -> None:
        self._request = request
        self._root = os.path.realpath(root)
        self._sessions: OrderedDict[str, _FileSession] = OrderedDict()
        """By path, that of the file asked about last at the end."""
        self._starting = asyncio.Lock()

    async def close(self) -> None:
        """End all sessions."""
        while self._sessions:
            await self._sessions.popitem()[1].close()

    # ---- tools

    async def ask(
        self,
        context: Context[Any, Any],
        file: File,
        question: Annotated[str, Field(description="name of a question, or the id of a part")] = "summary",
        arguments: Words = [],  # noqa: B006  pydantic copies it
        line: int | None = None,
        slowest: int | None = None,
        max_tokens: int = 2000,
        skip: int = 0,
        options: Options = [],  # noqa: B006
    ) -> str:
        path, words = self._inside(file), (question, *arguments)
        chosen = {"--line": line, "--slowest": slowest, "--max-tokens": max_tokens, "--skip": skip}
        if options or not path.endswith(".py"):
            flags = [part for name, value in chosen.items() if value is not None for part in (name, str(value))]
            return await _reporting(context, lambda say: self._run("ask", file, [*words, *flags, *options], say))
        message = question_message(
            words, shlex.join(["ask", file, *words]), line=line, slowest=slowest, max_tokens=max_tokens, skip=skip
        )
        return await _reporting(context, lambda say: self._answer(file, path, message, say))

    async def fix(
        self,
        context: Context[Any, Any],
        file: File,
        number: Annotated[int | None, Field(description="only the break of this number, from 1")] = None,
        write: Annotated[bool, Field(description="write the verified edits to the file")] = False,
    ) -> str:
        flags = [*(["--break", str(number)] if number else []), *(["--write"] if write else [])]
        return await _reporting(context, lambda say: self._run("fix", file, flags, say))

    async def study(
        self,
        context: Context[Any, Any],
        file: File,
        name: StudyName,
        budget_s: Annotated[float, Field(description="end after this many seconds, with the results so far")] = 120.0,
        options: Options = [],  # noqa: B006
    ) -> str:
        flags = ["--budget", str(budget_s), *options]
        return await _reporting(context, lambda say: self._run(name, file, flags, say))

    async def check(self, context: Context[Any, Any], file: File, limits: Options = []) -> str:  # noqa: B006
        return await _reporting(context, lambda say: self._run("check", file, ["--summary", *limits], say))

    # ---- resources

    async def source(self, id: str) -> str:  # noqa: A002  a parameter of the address
        """Return the source of a kernel of the newest session that has it."""
        return await self._about(("kernels", id))

    async def part(self, id: str) -> str:  # noqa: A002
        """Return all facts about a part of the newest session that has it."""
        return await self._about((id,))

    async def _about(self, words: Sequence[str]) -> str:
        message = question_message(words, "", max_tokens=0, quick=True)
        for session in reversed(self._sessions.values()):
            reply = await session.server.answer(message, _ignore)
            if not reply.get("problem") and "text" in reply:
                return str(reply["text"])
        raise RefusedError(f"no session has {words[-1]}: ask about its file first")

    # ---- how they are answered

    def _inside(self, file: str) -> str:
        """Return the real path of a file below the root. Raises `RefusedError` for another one."""
        try:
            path = os.path.realpath(split(file)[0])
        except BadFileError as error:
            raise RefusedError(error.sentence) from None
        if not path.startswith(os.path.join(self._root, "")):
            raise RefusedError(f"{file} is not below {self._root}, where the server was started")
        return path

    async def _answer(self, file: str, path: str, message: Message, say: Say) -> str:
        async with self._starting:
            session = await self._session(file, path)
        if session is None:  # the app, or another session, shows the file
            try:
                reply = await asyncio.to_thread(ask_session, path, message, ANSWER_S, _ignore)
            except NoSessionError as error:
                raise RefusedError(f"the session of {file} does not answer: {error}") from None
        else:
            reply = await session.server.answer(message, say)
        if problem := reply.get("bad_question") or reply.get("refused"):
            raise RefusedError(str(problem))
        return str(reply["text"])

    async def _session(self, file: str, path: str) -> _FileSession | None:
        """Return the session of a file, a new one if needed; None if another process has one."""
        if path in self._sessions:
            self._sessions.move_to_end(path)
            return self._sessions[path]
        try:
            check_path(path)
            session = _FileSession(self._request._replace(target=file), path)
        except BadFileError as error:
            raise RefusedError(error.sentence) from None
        if not await session.start():
            return None
        self._sessions[path] = session
        if len(self._sessions) > MOST_SESSIONS:
            await self._sessions.popitem(last=False)[1].close()
        return session

    async def _run(self, command: str, file: str, flags: Sequence[str], say: Say) -> str:
        """Run a command of tcexplore, and return the end of what it prints, with its exit status."""
        self._inside(file)
        if any(flag == "--trust" or flag.startswith("--python") for flag in flags):
            raise RefusedError("an agent cannot trust a folder or choose an interpreter: start the server with it")
        trusted = ["--trust"] if self._request.trust else []
        python = [part for path in self._request.python for part in ("--python", path)]
        words = OWN_PYTHON.command("tcexplore.__main__", command, file, *flags, *trusted, *python)
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            assert process.stdout is not None, "it is a pipe"
            assert process.stderr is not None, "it is a pipe"
            out, errors = await asyncio.gather(process.stdout.read(), _lines(process.stderr, say))
            status = await process.wait()
        finally:
            if process.returncode is None:  # the client cancelled the call
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)
                await process.wait()
        text = out.decode("utf-8", "replace").strip() or "\n".join(errors[-5:])
        cut = f"… ({len(text) - MAX_CHARS:,} characters before)\n" if len(text) > MAX_CHARS else ""
        return f"{cut}{text[-MAX_CHARS:]}\nexit status: {status}\n"


class _FileSession:
    """The session of one file."""

    def __init__(self, request: Request, path: str) -> None:
        _, name = split(request.target)
        self._program = WatchedProgram(path, name, request, model_python(request, path))
        self.server = SessionServer(
            self._program, path, lambda: run_options(request.config, name, request.argv)
        )  # fmt: skip
        self._program.server = self.server

    async def start(self) -> bool:
        """Start it; return False if another process has a session of the file."""
        try:
            alone = await self.server.start()
        except OSError:
            alone = True  # without a socket, only this server asks
        if alone:
            await self._program.engine.start(self._program.deliver)
        return alone

    async def close(self) -> None:
        """End it, with its processes."""
        await self.server.close()
        await self._program.engine.close()


def _ignore(_: str) -> None:
    """Show no progress."""


async def _reporting(context: Context[Any, Any], work: Callable[[Say], Awaitable[str]]) -> str:
    """Await the work, and report its progress to the client."""
    steps: asyncio.Queue[str] = asyncio.Queue()
    reporter = asyncio.create_task(_report(context, steps))
    try:
        return await work(steps.put_nowait)
    finally:
        reporter.cancel()


async def _report(context: Context[Any, Any], steps: asyncio.Queue[str]) -> None:
    number = 0
    while True:
        text = await steps.get()
        number += 1
        await context.report_progress(number, message=text)


async def _lines(stream: asyncio.StreamReader, say: Say) -> list[str]:
    """Read lines of progress to the end."""
    lines: list[str] = []
    while line := await stream.readline():
        text = line.decode("utf-8", "replace").strip()
        if text:
            lines.append(text)
            say(text)
    return lines
