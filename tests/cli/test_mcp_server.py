"""The tools and resources of `tcexplore mcp`, called by the client of the package `mcp`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import Client

from tcexplore import events as ev
from tcexplore.answers.session_server import SessionServer
from tcexplore.answers.session_socket import run_options
from tcexplore.cli import mcp_server
from tcexplore.cli.mcp_server import MOST_SESSIONS, Tools, make_server
from tcexplore.cli.options import Request
from tests import fakes
from tests.answers.fake_program import FakeProgram


class FakeFileSession:
    """A session of made-up runs."""

    opened: list[str] = []  # noqa: RUF012
    closed: list[str] = []  # noqa: RUF012
    alone = True

    def __init__(self, request: Request, path: str) -> None:
        self.path = path
        program = FakeProgram(fakes.session(fakes.complete(7)))
        self.server = SessionServer(program, path, lambda: run_options(request.config, None, ()))

    async def start(self) -> bool:
        self.opened.append(self.path)
        return self.alone

    async def close(self) -> None:
        self.closed.append(self.path)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("model.py", *(f"other{n}.py" for n in range(MOST_SESSIONS))):
        (tmp_path / name).write_text("import torch\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mcp_server, "_FileSession", FakeFileSession)
    monkeypatch.setattr(FakeFileSession, "opened", [])
    monkeypatch.setattr(FakeFileSession, "closed", [])
    return tmp_path


@asynccontextmanager
async def connected() -> AsyncIterator[Client]:
    """Connect a client to a server of the working folder. Not a fixture: it ends in the task in which it began."""
    tools = Tools(Request("mcp"), ".")
    async with Client(make_server(tools)) as client:
        yield client
    await tools.close()


async def called(client: Client, tool: str, **arguments: Any) -> tuple[bool, str]:
    """Return whether a call is an error, and its text."""
    result = await client.call_tool(tool, arguments)
    return bool(result.is_error), result.content[0].text


async def test_there_are_few_tools_and_each_is_described():
    async with connected() as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["ask", "fix", "study", "check"]
        assert all(tool.description for tool in tools)
        assert [tool.name for tool in tools if tool.annotations.destructive_hint] == ["fix"]
        assert "why-not-fused [A B]" in tools[0].description


async def test_a_question_is_answered_from_the_session_of_the_file():
    async with connected() as client:
        error, text = await called(client, "ask", file="model.py", question="kernels", slowest=1)
        assert not error
        assert "kernels: 1\n- k-" in text
        await called(client, "ask", file="./model.py", question="breaks")
        assert len(FakeFileSession.opened) == 1


async def test_the_source_of_a_kernel_is_a_resource():
    async with connected() as client:
        _, text = await called(client, "ask", file="model.py", question="kernels")
        id_ = text.partition("\n- ")[2].split()[0]
        (content,) = (await client.read_resource(f"tcexplore://source/{id_}")).contents
        assert "source:" in content.text
        (part,) = (await client.read_resource(f"tcexplore://part/{id_}")).contents
        assert part.text == content.text


async def test_a_file_outside_of_the_folder_is_not_run(tmp_path: Path):
    async with connected() as client:
        (tmp_path / "link.py").symlink_to("/etc/hosts")
        for file in ("/etc/hosts", "../x.py", "link.py"):
            for tool in ("ask", "fix", "check"):
                error, text = await called(client, tool, file=file)
                assert error
                assert "is not below" in text
        assert FakeFileSession.opened == []


@pytest.mark.parametrize("flag", ["--trust", "--python", "--python=/tmp/x"])
async def test_an_agent_cannot_trust_a_folder_or_choose_an_interpreter(flag: str):
    async with connected() as client:
        error, text = await called(client, "check", file="model.py", limits=[flag])
        assert error
        assert "an agent cannot trust" in text


async def test_a_bad_question_is_an_error_that_says_what_to_ask():
    async with connected() as client:
        error, text = await called(client, "ask", file="model.py", question="brakes")
        assert error
        assert "there are summary, next, breaks" in text
        error, text = await called(client, "ask", file="gone.py")
        assert error
        assert "does not exist" in text


async def test_the_oldest_session_ends_when_there_are_too_many():
    async with connected() as client:
        for name in ("model", *(f"other{n}" for n in range(MOST_SESSIONS))):
            await called(client, "ask", file=f"{name}.py", question="breaks")
        assert [Path(path).name for path in FakeFileSession.closed] == ["model.py"]


async def test_a_command_reports_progress_and_its_exit_status(monkeypatch: pytest.MonkeyPatch):
    async with connected() as client:
        script = "import sys; print('step', file=sys.stderr); print('done', sys.argv[1:]); sys.exit(1)"
        python = SimpleNamespace(command=lambda _, *arguments: ["python3", "-c", script, *arguments])
        monkeypatch.setattr(mcp_server, "OWN_PYTHON", python)
        steps: list[str | None] = []

        async def progress(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
            steps.append(message)

        result = await client.call_tool("study", {"file": "model.py", "name": "modes"}, progress_callback=progress)
        assert result.content[0].text == "done ['modes', 'model.py', '--budget', '120.0']\nexit status: 1\n"
        assert steps in (["step"], [])  # the client may get the result first


def test_the_configuration_of_a_session_is_that_of_a_plain_question():
    assert run_options(Request("mcp").config, None, ()) == run_options(ev.Config(), None, ())
