"""`check`, with a fake supervisor that replays events."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tcexplore import events as ev
from tcexplore.cli import main
from tcexplore.cli.options import Request
from tests.cli.conftest import BREAK, DONE, ENTRY, GRAPH, OURS, THEIRS, Check, Playback


def test_a_good_run_exits_0_and_prints_the_verdict(check: Check, capsys: pytest.CaptureFixture[str]):
    assert check(ENTRY, GRAPH, DONE) == 0
    out, err = capsys.readouterr()
    assert "0 graph breaks   1 graph," in out
    assert err == ""
    assert Playback.closed == 1


def test_the_arguments_make_the_job(check: Check, tmp_path: Path):
    check(DONE, arguments=("model.py:Net", "--mode", "reduce-overhead", "--time-for", "1.5", "--", "--fast"))
    (job,) = Playback.jobs
    assert (job.file, job.name, job.source) == (str(tmp_path / "model.py"), "Net", "import torch\n")
    assert (job.argv, job.config.mode, job.time_for) == (("--fast",), "reduce-overhead", 1.5)


@pytest.mark.parametrize(
    ("story", "arguments", "status"),
    [
        ((GRAPH, BREAK, DONE), (), 0),
        ((GRAPH, BREAK, DONE), ("--max-breaks", "1"), 0),
        ((GRAPH, BREAK, DONE), ("--max-breaks", "0"), 1),
        ((BREAK, OURS, DONE), ("--fullgraph",), 1),
        ((THEIRS, DONE), (), 2),
        ((OURS, DONE), (), 3),
    ],
)
def test_exit_status(check: Check, story: Sequence[ev.Event], arguments: Sequence[str], status: int):
    assert check(*story, arguments=("model.py", *arguments)) == status


def test_a_run_over_the_timeout_exceeds_a_limit(check: Check, capsys: pytest.CaptureFixture[str]):
    assert check(ENTRY, GRAPH, arguments=("model.py", "--timeout", "0.05", "--json")) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["error"]["type"] == "Timeout"
    assert report["limits_exceeded"] == ["not finished after 0.05 s (--timeout)"]
    assert [graph["id"] for graph in report["graphs"]] == ["0/0"]
    assert Playback.closed == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_workers(check: Check, monkeypatch: pytest.MonkeyPatch, number: signal.Signals):
    def submit(_: Playback, __: ev.Job) -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), number)

    monkeypatch.setattr(Playback, "submit", submit)
    assert check() == 128 + number
    assert Playback.closed == 1


def test_a_file_that_cannot_be_run_starts_no_worker(check: Check, capsys: pytest.CaptureFixture[str]):
    assert check(arguments=("gone.py",)) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "tcexplore: gone.py does not exist.\n")
    assert Playback.jobs == []


def test_a_bad_file_is_reported_as_json(check: Check, capsys: pytest.CaptureFixture[str]):
    assert check(arguments=(".", "--json")) == 2
    report = json.loads(capsys.readouterr().out)
    assert (report["status"], report["error"]["stage"], report["error"]["blame"]) == ("failed", "file", "user")


def test_without_a_terminal_the_report_is_printed(check: Check, capsys: pytest.CaptureFixture[str]):
    del check
    Playback.story = (ENTRY, GRAPH, DONE)
    assert main(["model.py"]) == 0
    out, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert "not a terminal" in err
    assert "0 graph breaks" in out


def test_the_app_refuses_a_missing_file_before_it_starts(
    check: Check, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    del check
    monkeypatch.setattr("tcexplore.cli.dispatch.terminal_problem", lambda: None)
    for target in ("gone.py", ".", "model.py:1"):
        assert main([target]) == 2
        assert capsys.readouterr().err.startswith("tcexplore: ")


def test_the_app_gets_the_file_and_the_configuration(check: Check, monkeypatch: pytest.MonkeyPatch):
    del check
    calls: list[tuple[str, str | None, Request]] = []

    def record(file: str, name: str | None, request: Request, _: object) -> int:
        calls.append((file, name, request))
        return 0

    monkeypatch.setattr("tcexplore.cli.dispatch.terminal_problem", lambda: None)
    monkeypatch.setattr("tcexplore.ui.run_app.run_app", record)
    assert main(["model.py:Net", "--train", "--standbys", "3", "--", "-v"]) == 0
    file, name, request = calls[0]
    assert (file, name, request.config, request.argv) == ("model.py", "Net", ev.Config(train=True), ("-v",))
    assert (request.standbys, request.history, request.target_given) == (3, True, False)
    monkeypatch.setenv("TCEXPLORE_NO_HISTORY", "1")
    assert main(["model.py", "--target", "native"]) == 0
    assert main(["model.py", "--no-history"]) == 0
    assert [(r.standbys, r.history, r.target_given) for _, _, r in calls[1:]] == [(2, False, True), (2, False, False)]
