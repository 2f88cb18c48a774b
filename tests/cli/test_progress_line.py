"""Terminals, the progress line, closed pipes."""

from __future__ import annotations

import asyncio
import io
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from tcexplore.cli.run_once import Line, Log, progress
from tcexplore.cli.terminal import terminal_problem
from tcexplore.session.snapshot import end_snapshot
from tests import fakes


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class WatchedLog(io.StringIO):
    """A log that sets `written` once it has text."""

    def __init__(self) -> None:
        super().__init__()
        self.written = asyncio.Event()

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


def put_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, Terminal())


def test_stdin_stdout_and_stderr_must_be_terminals(monkeypatch: pytest.MonkeyPatch):
    put_terminals(monkeypatch)
    assert terminal_problem() is None


@pytest.mark.parametrize("name", ["stdin", "stdout", "stderr"])
def test_a_pipe_is_not_a_terminal(monkeypatch: pytest.MonkeyPatch, name: str):
    put_terminals(monkeypatch)
    for stream in (io.StringIO(), None):
        monkeypatch.setattr(sys, name, stream)
        assert terminal_problem() == f"{name} is not a terminal"


def test_a_dumb_terminal_cannot_show_the_app(monkeypatch: pytest.MonkeyPatch):
    put_terminals(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    assert "TERM=dumb" in (terminal_problem() or "")


def test_progress_is_one_line_that_is_rewritten_and_erased():
    stream = Terminal()
    with Line(stream) as line:
        for _ in range(3):
            line.show(fakes.running())
        written = stream.getvalue()
    assert written.count("Dynamo 0/0") == 1
    assert "\n" not in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[2K")


def test_progress_of_an_ended_run_is_done():
    stream = Terminal()
    with Line(stream) as line:
        line.show(end_snapshot(fakes.complete()), "2 of 2")
        assert "2 of 2 · done · " in stream.getvalue()


def test_a_result_stays_above_the_line():
    stream = Terminal()
    with Line(stream) as line:
        line.write("1 of 2")
        line.print_line("1.50×")
        line.write("2 of 2")
    first, rest = stream.getvalue().split("\n")
    assert first.endswith("1.50×")
    assert rest.startswith("\r\x1b[2K")


async def test_a_log_has_lines_only_for_slow_steps():
    stream = WatchedLog()
    with progress(stream) as quick:
        quick.write("waiting for a worker")
        quick.show(fakes.running())
    assert stream.getvalue() == ""
    running = fakes.running()
    with Log(stream, patience=0.0) as line:
        line.show(running)
        line.show(replace(running, phase_graph="1/0"))
        await stream.written.wait()
        line.show(running)
        await asyncio.sleep(0)
    (only,) = stream.getvalue().splitlines()
    assert re.fullmatch(r"tcexplore · \d+\.\d s · Dynamo 1/0", only), "its newest state, once, and no tricks"


async def test_a_log_has_a_line_after_many_quick_steps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tcexplore.cli.run_once.AGAIN_S", 0.0)
    stream = WatchedLog()
    with Log(stream, patience=1e9) as line:
        line.write("one of many")
        await stream.written.wait()
    assert "one of many" in stream.getvalue()


LONG_REPORT = """
import sys
from tcexplore.cli import main
from tcexplore.cli import dispatch
dispatch._COMMANDS["doctor"] = lambda _: print("x" * 1_000_000, flush=True)
sys.exit(main(["doctor"]))
"""


def test_a_closed_pipe_prints_no_traceback():
    with subprocess.Popen([sys.executable, "-c", LONG_REPORT], stdout=-1, stderr=-1) as process:
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
