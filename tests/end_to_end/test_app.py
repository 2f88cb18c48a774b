"""End-to-end tests of the app in a real terminal with real torch."""

from __future__ import annotations

import getpass
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal import Terminal

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

BREAKS = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        print("in forward")
        return torch.relu(x) * 1.5


model = Model()
inputs = (torch.randn(8, 8),)
"""
FIXED = BREAKS.replace('        print("in forward")\n', "")
RESTORED = b"\x1b[?1049l"
"""The sequence that leaves the alternate screen."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.py"
    file.write_text(BREAKS)
    return file


@pytest.fixture
def terminal(model: Path) -> Iterator[Terminal]:
    command = [sys.executable, "-m", "tcexplore", model.name]
    scratch = model.parent / "scratch"
    scratch.mkdir()
    # A separate temporary folder shows leftover files; the compile caches are shared with the other tests.
    caches = os.environ.get("TORCHINDUCTOR_CACHE_DIR", f"{tempfile.gettempdir()}/torchinductor_{getpass.getuser()}")
    env = {"TMPDIR": str(scratch), "TORCHINDUCTOR_CACHE_DIR": caches}
    with Terminal(command, columns=160, rows=50, cwd=str(model.parent), env=env) as opened:
        yield opened


def save(file: Path, text: str) -> None:
    new = file.with_suffix(".tmp")
    new.write_text(text)
    os.replace(new, file)


def descendants(root: int) -> Iterator[int]:
    """Yield the descendants of a process."""
    children = Path(f"/proc/{root}/task/{root}/children")
    for child in map(int, children.read_text().split() if children.exists() else ()):
        yield child
        yield from descendants(child)


def gone(pids: set[int], within: float = 5.0) -> bool:
    """Return whether all processes have ended and were reaped."""
    end = time.monotonic() + within
    while any(alive(pid) for pid in pids) and time.monotonic() < end:
        select.select([], [], [], 0.05)
    return not any(alive(pid) for pid in pids)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state != "Z"


def test_an_edit_removes_a_break_and_quitting_leaves_no_process(terminal: Terminal, model: Path) -> None:
    terminal.wait_for("1 graph break", timeout=200)
    terminal.wait_for("kernel")
    terminal.forget()
    save(model, FIXED)
    terminal.wait_for("0 graph breaks")
    terminal.forget()
    save(model, BREAKS.replace("relu(x)", "relu(x"))
    terminal.wait_for("SyntaxError")
    terminal.forget()
    save(model, BREAKS)
    terminal.wait_for("1 graph break")
    workers = set(descendants(terminal.process.pid))
    assert workers
    terminal.type("q")
    assert terminal.wait(30) == 0
    assert RESTORED in terminal.painted
    assert gone(workers)


@pytest.mark.parametrize(
    ("number", "study", "sign"), [(signal.SIGTERM, "M", "running"), (signal.SIGHUP, "C", "cold compile")], ids=str
)
def test_a_signal_during_a_study_restores_the_terminal_and_leaves_no_process(
    terminal: Terminal, model: Path, number: signal.Signals, study: str, sign: str
) -> None:
    terminal.wait_for("1 graph break", timeout=200)
    terminal.type(study)
    terminal.wait_for(sign, timeout=100)
    workers = set(descendants(terminal.process.pid))
    terminal.forget()
    terminal.process.send_signal(number)
    assert terminal.wait(30) == 128 + number
    assert RESTORED in terminal.painted
    assert gone(workers)
    assert list((model.parent / "scratch").glob("tcexplore-caches-*")) == []


@pytest.mark.parametrize("continued", [False, True], ids=["silent", "continued"])
def test_closing_the_terminal_ends_every_process(terminal: Terminal, continued: bool) -> None:
    terminal.wait_for("1 graph break", timeout=200)
    workers = set(descendants(terminal.process.pid))
    terminal.hang_up()
    if continued:
        terminal.process.send_signal(signal.SIGCONT)
    assert terminal.process.wait(30) == 128 + signal.SIGHUP
    assert gone(workers)


def test_fifty_quick_saves_end_with_the_last_one_shown(terminal: Terminal, model: Path) -> None:
    terminal.wait_for("1 graph break", timeout=200)
    terminal.type("2z")
    for number in range(50):
        save(model, FIXED.replace("1.5", f"2.{number:02d}625"))
        terminal.read(0.02)
    terminal.wait_for("2.49625")
    workers = set(descendants(terminal.process.pid))
    terminal.type("q")
    assert terminal.wait(30) == 0
    assert gone(workers)
