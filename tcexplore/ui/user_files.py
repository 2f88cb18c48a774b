"""Files of the user: opened in the editor, restored after a written fix, and saved as pictures and reports of runs."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App, SuspendNotSupported

from tcexplore.documents.locations import display_path
from tcexplore.events import Location

if TYPE_CHECKING:
    from tcexplore.events import Standby
    from tcexplore.files import Written  # not imported before the first frame
    from tcexplore.session import Snapshot

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
"""Editors with their own window: the app keeps the terminal."""
_LINE_AFTER_COLON = ("hx", "helix", "micro")


def command(location: Location, environment: Mapping[str, str]) -> list[str] | None:
    """Return the command that opens the editor at a line; None if there is no editor."""
    named = environment.get("VISUAL") or environment.get("EDITOR") or next(filter(shutil.which, _FALLBACKS), None)
    if not named:
        return None
    program, *options = shlex.split(named)
    name = os.path.basename(program)
    if name in _WINDOWED:
        target = [part.format(file=location.file, line=location.line) for part in _WINDOWED[name].split()]
        return [program, *(o for o in options if o not in ("-g", "--goto", "-w", "--wait")), *target]
    if name in _LINE_AFTER_COLON:
        return [program, *options, f"{location.file}:{location.line}"]
    return [program, *options, f"+{location.line}", location.file]


def edit(app: App[object], location: Location) -> str | None:
    """Open the editor; a terminal editor gets the terminal until it exits. Return an error message, or None."""
    arguments = command(location, os.environ)
    if arguments is None:
        return "No editor: set $EDITOR, for instance EDITOR=vim."
    try:
        if os.path.basename(arguments[0]) in _WINDOWED:
            subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return None
        with app.suspend():
            subprocess.run(arguments, check=False)
    except SuspendNotSupported:
        return f"The app cannot give this terminal to {arguments[0]}; the line is {location.file}:{location.line}."
    except OSError as error:
        return f"{arguments[0]} does not start: {error.strerror or error}. Set $EDITOR to another editor."
    return None


@dataclass(slots=True)
class Undo:
    """The last fix written to a file."""

    last: Written | None = None
    """What `restore` undoes."""

    def restore(self) -> str:
        """Restore the file as it was before; return a message for the user."""
        from tcexplore.files import NotWrittenError, undo

        if self.last is None:
            return "No fix to undo."
        try:
            undo(self.last)
        except NotWrittenError as error:
            return str(error)
        file, self.last = self.last.file, None
        return f"{display_path(file)} restored."


# ---- saved files


TEXT_WIDTH = 120
"""Columns of the report as text."""

MOST_FILES = 1000
"""Numbers tried for a file name that is not in use."""


def render(snapshot: Snapshot, kind: str, machine: Standby | None) -> str:
    """Return the run as `html`, `txt` or `json`."""
    if kind == "html":
        from tcexplore.report.html_report import html_report

        return html_report(snapshot, machine)
    if kind == "json":
        from tcexplore.report.json_report import report

        return json.dumps(report(snapshot, machine), indent=1) + "\n"
    from tcexplore.report.check_report import check_report
    from tcexplore.report.printed import print_document

    stream = io.StringIO()
    print_document(
        lambda width: check_report(snapshot, machine, (), snapshot.expected_calls, width), stream, TEXT_WIDTH
    )
    return stream.getvalue()


def save(content: str, snapshot: Snapshot, kind: str) -> str:
    """Write a new file in the working directory, named after the model file and the run; return a message.

    A run of an earlier start is named after its time: it has no number of its own.
    """
    from datetime import datetime

    from tcexplore.files import NotWrittenError, create

    moment = f"{datetime.fromtimestamp(snapshot.began):%Y%m%d-%H%M%S}" if snapshot.past else f"run{snapshot.run}"
    stem = f"{os.path.splitext(os.path.basename(snapshot.file))[0]}-{moment}"
    base = Path.cwd()
    names = (f"{stem}{f'-{n}' if n else ''}.{kind}" for n in range(MOST_FILES))
    path = next((base / name for name in names if not os.path.lexists(base / name)), base / f"{stem}.{kind}")
    try:
        return f"Saved {create(path, content)}."
    except NotWrittenError as error:
        return str(error)
