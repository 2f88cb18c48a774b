"""Opening the user's editor at a line."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping

from textual.app import App, SuspendNotSupported

from tcexplore.events import Location

_FALLBACKS = ("nano", "vim", "vi")
_WINDOWED = {
    "code": "-g {file}:{line}",
    "code-insiders": "-g {file}:{line}",
    "codium": "-g {file}:{line}",
    "cursor": "-g {file}:{line}",
    "subl": "{file}:{line}",
    "zed": "{file}:{line}",
    "gedit": "+{line} {file}",
    "kate": "-l {line} {file}",
    "pycharm": "--line {line} {file}",
}
"""Editors with a window of their own: they leave the terminal alone, so nothing has to make room for them."""
_LINE_AFTER_COLON = ("hx", "helix", "micro")


def command(location: Location, environment: Mapping[str, str]) -> list[str] | None:
    """What to run to edit a line; None where there is no editor."""
    named = environment.get("VISUAL") or environment.get("EDITOR") or next(filter(shutil.which, _FALLBACKS), None)
    if not named:
        return None
    program, *options = shlex.split(named)
    name = os.path.basename(program)
    if name in _WINDOWED:
        place = [part.format(file=location.file, line=location.line) for part in _WINDOWED[name].split()]
        return [program, *(o for o in options if o not in ("-g", "--goto", "-w", "--wait")), *place]
    if name in _LINE_AFTER_COLON:
        return [program, *options, f"{location.file}:{location.line}"]
    return [program, *options, f"+{location.line}", location.file]


def edit(app: App[object], location: Location) -> str | None:
    """Open the editor; a terminal editor gets the terminal until it ends. Returns what went wrong, in words."""
    words = command(location, os.environ)
    if words is None:
        return "No editor: set $EDITOR, for instance EDITOR=vim."
    try:
        if os.path.basename(words[0]) in _WINDOWED:
            subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return None
        with app.suspend():
            subprocess.run(words, check=False)
    except SuspendNotSupported:
        return f"This terminal cannot be handed to {words[0]}; the line is {location.file}:{location.line}."
    except OSError as error:
        return f"{words[0]} does not start: {error.strerror or error}. Set $EDITOR to an editor that does."
    return None
