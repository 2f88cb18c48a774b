"""A session answers over its socket, for the text on disk, and only to its user."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tcexplore import events as ev
from tcexplore.answers import session_server
from tcexplore.answers.session_server import SessionServer
from tcexplore.answers.session_socket import NoSessionError, ask_session, question, run_options, socket_path
from tcexplore.events.codec import decode
from tcexplore.events.commands import RecompileQuery, RunCommand
from tcexplore.session import Session, Snapshot
from tests import fakes
from tests.answers.fake_program import FakeProgram

OPTIONS = run_options(ev.Config(), None, ())


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make the user's run-time folder. Its path is short: that of a socket has at most 107 bytes."""
    made = Path(tempfile.mkdtemp(prefix="tcx-"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(made))
    yield made
    shutil.rmtree(made)


FILE = fakes.FILE


def exists(path: Path) -> bool:
    return os.path.lexists(path)


async def asked(*words: str, said: Callable[[str], None] = lambda _: None, **more: Any) -> dict[str, Any]:
    reply = await asyncio.to_thread(
        ask_session, FILE, question(words, "tcexplore ask x", as_json=True, **more), 20.0, said
    )
    return {**reply, **({"answer": json.loads(reply["text"])} if "text" in reply else {})}


async def started(program: FakeProgram) -> SessionServer:
    server = SessionServer(program, FILE, lambda: OPTIONS)
    assert await server.start()
    return server


async def test_a_question_is_answered_from_the_newest_run():
    server = await started(FakeProgram(fakes.session(fakes.complete(6))))
    try:
        reply = await asked("breaks")
        assert reply["answer"]["breaks"][0]["id"].startswith("b-")
        assert (reply["problem"], reply["blame"]) == ("", None)
        assert (await asked("breaks", "b-000000000"))["problem"].startswith("there is no break")
        assert (await asked("brakes"))["bad_question"].startswith("there is no question")
    finally:
        await server.close()


async def test_only_the_user_can_open_the_socket(folder: Path):
    server = await started(FakeProgram(fakes.session(fakes.complete(6))))
    path = socket_path(FILE)
    assert path.is_relative_to(folder)
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.lstat().st_mode) == 0o700
    await server.close()
    assert not exists(path)


async def test_a_folder_that_others_can_read_is_closed_to_them(folder: Path):
    (folder / "tcexplore").mkdir(mode=0o777)
    (folder / "tcexplore").chmod(0o777)
    assert stat.S_IMODE(socket_path(FILE).parent.lstat().st_mode) == 0o700


async def test_a_link_in_place_of_the_folder_is_refused(folder: Path, tmp_path: Path):
    (folder / "tcexplore").symlink_to(tmp_path)
    with pytest.raises(OSError, match="not a folder of yours"):
        socket_path(FILE)
    with pytest.raises(NoSessionError, match="not a folder of yours"):
        await asked("breaks")


async def test_a_file_in_place_of_the_socket_is_neither_used_nor_removed():
    socket_path(FILE).write_text("mine")
    with pytest.raises(PermissionError):
        await SessionServer(FakeProgram(Session()), FILE, lambda: OPTIONS).start()
    with pytest.raises(NoSessionError):
        await asked("breaks")
    assert socket_path(FILE).read_text() == "mine"


async def test_another_user_is_not_answered(monkeypatch: pytest.MonkeyPatch):
    server = await started(FakeProgram(fakes.session(fakes.complete(6))))
    try:
        monkeypatch.setattr(session_server, "is_own_peer", lambda _: False)
        with pytest.raises(NoSessionError):
            await asked("breaks")
    finally:
        await server.close()


async def test_a_second_session_of_a_file_does_not_replace_the_first():
    server = await started(FakeProgram(fakes.session(fakes.complete(6))))
    try:
        assert not await SessionServer(FakeProgram(Session()), FILE, lambda: OPTIONS).start()
        assert (await asked("breaks"))["answer"]["breaks"]
    finally:
        await server.close()


async def test_the_socket_of_a_killed_session_is_replaced():
    server = await started(FakeProgram(fakes.session(fakes.complete(6))))
    path = socket_path(FILE)
    server._server.close()  # as if killed: the file stays
    if not exists(path):  # Python 3.13 removes it
        os.mknod(path, stat.S_IFSOCK | 0o600)
    with pytest.raises(NoSessionError):
        await asked("breaks")
    again = await started(FakeProgram(fakes.session(fakes.complete(7))))
    assert (await asked("breaks"))["answer"]["question"] == "breaks"
    await again.close()


async def test_other_options_are_refused():
    server = await started(FakeProgram(fakes.session(fakes.complete(6))))
    try:
        assert "answer" in await asked("breaks", options=OPTIONS)
        with pytest.raises(NoSessionError, match="other options"):
            await asked("breaks", options=run_options(ev.Config(mode="max-autotune"), None, ()))
    finally:
        await server.close()


async def test_a_question_waits_for_the_run_of_the_text_on_disk():
    program = FakeProgram(fakes.session(fakes.complete(6)))
    server = await started(program)
    program.on_disk = "# changed\n" + fakes.complete(6).source
    try:
        waiting = asyncio.ensure_future(asked("breaks"))
        changed = replace(fakes.complete(7), source=program.on_disk, breaks=())
        running = replace(changed, status="running", phase="dynamo")
        for run in (running, changed):
            for _ in range(20):
                await asyncio.sleep(0)
            assert not waiting.done()
            program.session = fakes.session(run)
            server.update()
        assert (await waiting)["answer"]["breaks"] == []
        assert program.reruns == 0
    finally:
        await server.close()


async def test_a_save_that_the_watch_missed_is_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session_server, "RERUN_S", 0.01)
    program = FakeProgram(fakes.session(fakes.complete(6)))
    server = await started(program)
    program.on_disk = "# changed\n"
    monkeypatch.setattr(program, "rerun", lambda: setattr(program, "reruns", 1))
    try:
        await asked("breaks")
        assert program.reruns == 1
    finally:
        await server.close()


async def test_a_recompile_check_is_sent_to_the_run():
    program = FakeProgram(fakes.session(fakes.complete(7)))
    server = await started(program)

    def send(command: RunCommand) -> bool:
        assert isinstance(command, RecompileQuery)
        newest = program.session.newest
        frame = ev.FrameAnswer(frame=ev.Location(FILE, 3, "forward"), number="0", verdict="recompiles")
        answer = ev.RecompileAnswer(run=newest.run, number=command.number, inputs=command.inputs, frames=(frame,))
        program.session = program.session.apply(answer)
        program.sent.append(command)
        return True

    program.send = send  # type: ignore[method-assign]
    try:
        (known,) = (await asked("recompile", "f32[33, 512], True"))["answer"]["answers"]
        assert known["would_recompile"] is True
        assert program.sent[0].inputs == ("f32[33, 512]", "True")
    finally:
        await server.close()


async def test_a_question_about_times_has_the_run_measured():
    program = FakeProgram(fakes.session(fakes.complete(7)))
    server = await started(program)
    try:
        await asked("breaks")
        await asked("summary", quick=True)
        assert not program.measured.is_set()
        waiting = asyncio.ensure_future(asked("kernels"))
        await program.measured.wait()
        timed = replace(fakes.complete(7), timing_skipped="it cannot be timed")
        program.session = fakes.session(timed)
        server.update()
        assert (await waiting)["answer"]["kernels"]
    finally:
        await server.close()


async def test_a_diff_compares_with_the_last_run_of_another_text():
    before = replace(fakes.complete(6), source="# before\n", breaks=())
    program = FakeProgram(fakes.session(before, fakes.complete(7)))
    server = await started(program)
    try:
        assert (await asked("diff"))["answer"]["breaks"].startswith("0 → ")
    finally:
        await server.close()


async def test_the_whole_run_can_be_asked_for():
    server = await started(FakeProgram(fakes.session(fakes.complete(7))))
    try:
        reply = await asyncio.to_thread(ask_session, FILE, question((), "", whole=True), 20.0, lambda _: None)
        run = decode(reply["run"].encode(), {"Snapshot": Snapshot})
        assert (run.breaks, run.graphs, run.codes) == (
            fakes.complete(7).breaks, fakes.complete(7).graphs, fakes.complete(7).codes,
        )  # fmt: skip
        assert run.status == "ok"
    finally:
        await server.close()


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"[1]\n", b'{"protocol": 99, "options": null}\n', b"\xff\xfe\n"])
async def test_a_bad_message_is_refused(line: bytes):
    server = await started(FakeProgram(fakes.session(fakes.complete(6))))
    try:
        reader, writer = await asyncio.open_unix_connection(socket_path(FILE))
        writer.write(line)
        reply = json.loads(await reader.readline())
        assert "refused" in reply
        writer.close()
        assert "answer" in await asked("breaks")
    finally:
        await server.close()
