"""Checks of the terminal: size, colors, encoding, clipboard."""

from __future__ import annotations

import os
import shutil
import sys

from tcexplore.cli.doctor.findings import Finding, Section
from tcexplore.cli.explore_command import terminal_problem

FULL_SIZE = (140, 40)
"""Minimum columns and rows to show all panes at once."""


def check_terminal() -> Section:
    """Return the section on the terminal."""
    reason = terminal_problem()
    if reason is not None:
        text = f"{reason}: tcexplore prints a report instead of opening its panes"
        return Section("Terminal", (Finding("screen", "limited", text),))
    return Section("Terminal", (_size(), _colors(), _encoding(), _clipboard()))


def _size() -> Finding:
    columns, rows = shutil.get_terminal_size()
    text = f"{columns} columns, {rows} rows"
    if columns >= FULL_SIZE[0] and rows >= FULL_SIZE[1]:
        return Finding("size", "good", f"{text}: all panes visible")
    larger = "{} × {}".format(*FULL_SIZE)
    return Finding("size", "limited", f"{text}: one pane at a time", f"all panes are visible from {larger}")


def _colors() -> Finding:
    from rich.console import Console

    system = Console(file=sys.stderr).color_system
    text = {"truecolor": "16 million", "256": "256", "standard": "16"}.get(system or "", "none")
    if system == "truecolor":
        return Finding("colors", "good", text)
    remedy = "if the terminal supports more colors, `export COLORTERM=truecolor`"
    return Finding("colors", "limited", f"{text} (TERM={os.environ.get('TERM', '')})", remedy)


def _encoding() -> Finding:
    encoding = (sys.stdout.encoding or "").lower()
    if encoding.replace("-", "") == "utf8":
        return Finding("text", "good", "UTF-8")
    return Finding("text", "missing", f"{encoding}: can't display lines and symbols", "`export LC_ALL=C.UTF-8`")


def _clipboard() -> Finding:
    """Return how copying works: no terminal tells, and tmux forwards the sequence only if configured."""
    text = "copying uses OSC 52; terminals can't be queried for support"
    remedy = "in tmux, `set -g set-clipboard on` enables it" if os.environ.get("TMUX") else ""
    return Finding("clipboard", "limited", text, remedy)
