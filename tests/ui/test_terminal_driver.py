"""The driver sends the same picture in fewer bytes, and survives a closed terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.style import Style

from tcexplore.ui import terminal_driver
from tcexplore.ui.terminal_driver import (
    _PLAIN,
    _SGR,
    LARGEST_SIZE,
    TerminalWriter,
    _after,
    limited_size,
    minimize_sgr,
)
from tests.terminal import Terminal

STYLES = st.builds(
    Style,
    color=st.sampled_from([None, "red", "bright_blue", "color(200)", "#102030"]),
    bgcolor=st.sampled_from([None, "default", "bright_red", "color(7)", "#ffffff"]),
    bold=st.booleans(),
    underline=st.booleans(),
    reverse=st.booleans(),
)
SYSTEMS = st.sampled_from([ColorSystem.STANDARD, ColorSystem.EIGHT_BIT, ColorSystem.TRUECOLOR])


def picture(text: str) -> list[tuple[str, object]]:
    """Return each character with its style."""
    state, cells = _PLAIN, []
    for piece in _SGR.split(text):
        if _SGR.fullmatch(piece):
            state = _after(state, piece)
        else:
            cells += [(char, state) for char in piece]
    return [*cells, ("end", state)]


@given(st.lists(st.tuples(st.text("ab \n\x1b", max_size=4), STYLES), max_size=8), SYSTEMS)
def test_minimized_styles_give_the_same_picture(parts: list[tuple[str, Style]], system: ColorSystem):
    frame = "\x1b[3;1H" + "".join(style.render(text, color_system=system) for text, style in parts)
    assert picture(minimize_sgr(frame)) == picture(frame)
    assert len(minimize_sgr(frame)) <= len(frame)


def test_only_changes_of_style_are_sent():
    red, bold = "\x1b[31;44ma\x1b[0m", "\x1b[1;31;44mb\x1b[0m"
    assert minimize_sgr(red + bold) == "\x1b[31;44ma\x1b[1mb\x1b[0m"
    assert minimize_sgr(bold + red) == "\x1b[1;31;44mb\x1b[0;31;44ma\x1b[0m"
    assert minimize_sgr("no style at all") == "no style at all"
    assert re.findall("\x1b", minimize_sgr(red * 3)) == ["\x1b"] * 2


APP = """\
import sys
from textual.app import App
from tcexplore.ui.terminal_driver import limited_driver, terminal_closed

class Writing(App):
    def get_driver_class(self):
        return limited_driver(super().get_driver_class())

    def on_mount(self):
        self.set_interval(0.001, lambda: self._driver.write("running"))
        self.set_interval(0.5, lambda: terminal_closed() and self.exit(return_code=129))

app = Writing()
app.run()
sys.exit(app.return_code)
"""


def test_a_closed_terminal_does_not_block_an_app_that_writes():
    with Terminal([sys.executable, "-c", APP]) as app:
        app.wait_for("running")
        app.hang_up()
        assert app.process.wait(20) == 129


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP, "q"], ids=str)
def test_the_app_ends_at_once_in_a_terminal_that_does_not_read(tmp_path: Path, end: signal.Signals | str):
    """The real app, on a file that needs no worker."""
    (tmp_path / "model.py").write_text("x = (\n")
    with Terminal([sys.executable, "-m", "tcexplore", "model.py"], columns=160, rows=50, cwd=str(tmp_path)) as app:
        app.wait_for("SyntaxError")
        for number in range(12):
            app.resize(160 - number % 2, 50)
            select.select([], [], [], 0.1)
        began = time.monotonic()
        if isinstance(end, str):
            app.type(end)
        else:
            app.process.send_signal(end)
        assert app.process.wait(20) == (0 if isinstance(end, str) else 128 + end)
        assert time.monotonic() - began < 2
        app.read(0.2)
        assert b"\x1b[?1049l" in app.painted


def test_pictures_that_were_not_read_are_dropped_and_painted_anew(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(terminal_driver, "MOST_WAITING", 10_000)
    master, slave = pty.openpty()
    repainted = threading.Event()
    with open(slave, "w") as file:
        writer = TerminalWriter(file, repainted.set)
        writer.start()
        began = time.monotonic()
        for number in range(1000):
            writer.write(f"{number:04}" * 1000)
        writer.write("\x1b[?25h")
        assert time.monotonic() - began < 2
        with writer._changed:  # the writer's thread takes from it
            assert sum(map(len, writer._waiting)) <= 2 * terminal_driver.MOST_WAITING
        read = b""
        while b"\x1b[?25h" not in read or not repainted.is_set():
            assert select.select([master], [], [], 10)[0] or repainted.wait(10)
            read += os.read(master, 1 << 16) if select.select([master], [], [], 0)[0] else b""
        assert len(read) < 1_000_000
        writer.stop()
    os.close(master)


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ((80, 24), (80, 24)),
        ((10**9, 10**9), LARGEST_SIZE),
        ((0, 24), (80, 24)),
        (("x", None), (80, 24)),
        ((-1, 2), (80, 24)),
    ],
)
def test_sizes_of_the_terminal_are_limited(given: tuple[object, object], size: tuple[int, int]):
    assert limited_size(*given) == size
