"""End-to-end tests of the app in a real terminal with real torch."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.real_app import BREAKS, RESTORED, open_app, save, write_model
from tests.supervisor.runs import descendants, gone
from tests.terminal import Terminal

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

FIXED = BREAKS.replace('        print("in forward")\n', "")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path)


@pytest.fixture
def terminal(model: Path) -> Iterator[Terminal]:
    with open_app(model) as opened:
        yield opened


@pytest.fixture(scope="module")
def edited_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("edited"))


@pytest.fixture(scope="module")
def app(edited_model: Path) -> Iterator[Terminal]:
    """One app in which several tests save the model file, after its first run."""
    with open_app(edited_model) as opened:
        opened.wait_for("1 graph break", timeout=200)
        opened.wait_for("kernel")
        yield opened


def test_an_edit_removes_a_break(app: Terminal, edited_model: Path) -> None:
    app.forget()
    save(edited_model, FIXED)
    app.wait_for("0 graph breaks")
    app.forget()
    save(edited_model, BREAKS.replace("relu(x)", "relu(x"))
    app.wait_for("SyntaxError")
    app.forget()
    save(edited_model, BREAKS)
    app.wait_for("1 graph break")


def test_fifty_quick_saves_end_with_the_last_one_shown(app: Terminal, edited_model: Path) -> None:
    app.type("2z")
    for number in range(50):
        save(edited_model, FIXED.replace("1.5", f"2.{number:02d}625"))
        app.read(0.02)
    app.wait_for("2.49625")


def test_closing_the_terminal_after_many_saves_ends_every_process(app: Terminal) -> None:
    workers = descendants(app.process.pid)
    assert workers
    app.hang_up()
    assert app.process.wait(30) == 128 + signal.SIGHUP
    assert gone(workers)


@pytest.mark.parametrize(
    ("number", "study", "sign"), [(signal.SIGTERM, "SM", "running"), (signal.SIGHUP, "SC", "cold compile")], ids=str
)
def test_a_signal_during_a_study_restores_the_terminal_and_leaves_no_process(
    terminal: Terminal, model: Path, number: signal.Signals, study: str, sign: str
) -> None:
    terminal.wait_for("1 graph break", timeout=200)
    terminal.type(study)
    terminal.wait_for(sign, timeout=100)
    workers = descendants(terminal.process.pid)
    terminal.forget()
    terminal.process.send_signal(number)
    assert terminal.wait(30) == 128 + number
    assert RESTORED in terminal.painted
    assert gone(workers)
    assert list((model.parent / "scratch").glob("tcexplore-caches-*")) == []


def test_closing_the_terminal_and_continuing_ends_every_process(terminal: Terminal) -> None:
    terminal.wait_for("1 graph break", timeout=200)
    workers = descendants(terminal.process.pid)
    terminal.hang_up()
    terminal.process.send_signal(signal.SIGCONT)
    assert terminal.process.wait(30) == 128 + signal.SIGHUP
    assert gone(workers)


def test_the_runs_of_an_earlier_start_are_in_the_history(tmp_path: Path):
    """A file with a syntax error needs no worker, and its run is stored as any other."""
    (tmp_path / "model.py").write_text("x = (\n")
    command = [sys.executable, "-m", "tcexplore", "model.py"]
    env = {"XDG_STATE_HOME": str(tmp_path / "state")}
    with Terminal(command, columns=160, rows=50, cwd=str(tmp_path), env=env) as first:
        first.wait_for("SyntaxError")
        first.type("q")
        assert first.wait(20) == 0
    with Terminal(command, columns=160, rows=50, cwd=str(tmp_path), env=env) as second:
        second.wait_for("error [1: error]")
        second.forget()
        second.type("[")
        second.wait_for("from history")
