"""What the terminal can show."""

from __future__ import annotations

import os
import shutil
import sys

from tcexplore.cli.tty import why_no_screen
from tcexplore.doctor.finding import Finding, Section

COMFORTABLE = (140, 40)
"""Columns and rows from which on all panes are in view at once."""


def screen() -> Section:
    """The section on the terminal."""
    reason = why_no_screen()
    if reason is not None:
        text = f"{reason}: here tcexplore prints a report instead of opening its panes"
        return Section("Terminal", (Finding("screen", "without", text),))
    return Section("Terminal", (_size(), _colors(), _encoding(), _clipboard()))


def _size() -> Finding:
    columns, rows = shutil.get_terminal_size()
    text = f"{columns} columns, {rows} rows"
    if columns >= COMFORTABLE[0] and rows >= COMFORTABLE[1]:
        return Finding("size", "good", f"{text}: all panes at once")
    larger = "{} × {}".format(*COMFORTABLE)
    return Finding("size", "without", f"{text}: one pane at a time", f"from {larger} on all panes are in view")


def _colors() -> Finding:
    from rich.console import Console

    system = Console(file=sys.stderr).color_system
    text = {"truecolor": "16 million", "256": "256", "standard": "16"}.get(system or "", "none")
    if system == "truecolor":
        return Finding("colors", "good", text)
    remedy = "where the terminal can do more, `export COLORTERM=truecolor`"
    return Finding("colors", "without", f"{text} (TERM={os.environ.get('TERM', '')})", remedy)


def _encoding() -> Finding:
    encoding = (sys.stdout.encoding or "").lower()
    if encoding.replace("-", "") == "utf8":
        return Finding("text", "good", "UTF-8")
    return Finding("text", "missing", f"{encoding}: lines and marks cannot be drawn", "`export LC_ALL=C.UTF-8`")


def _clipboard() -> Finding:
    """No terminal can be asked; tmux and screen pass the sequence on only when told to."""
    text = "copying uses the sequence OSC 52; whether this terminal takes it cannot be asked"
    inside = "tmux" if os.environ.get("TMUX") else ""
    remedy = "in tmux, `set -g set-clipboard on` lets it through" if inside else ""
    return Finding("clipboard", "without", text, remedy)
