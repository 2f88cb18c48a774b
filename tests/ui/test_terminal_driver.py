"""The driver sends the same picture in fewer bytes, and survives a closed terminal."""

from __future__ import annotations

import re
import sys

from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.style import Style

from tcexplore.ui.terminal.terminal_driver import _PLAIN, _SGR, _after, minimize_sgr
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
from tcexplore.ui.terminal.terminal_driver import minimizing_driver, terminal_closed

class Writing(App):
    def get_driver_class(self):
        return minimizing_driver(super().get_driver_class())

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
