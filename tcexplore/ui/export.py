"""Files that the user saves from the app: a screenshot, or the run as HTML, text or JSON."""

from __future__ import annotations

import io
import json
import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tcexplore.files import NotWrittenError, create
from tcexplore.session import Snapshot

if TYPE_CHECKING:
    from tcexplore.events import Standby

TEXT_WIDTH = 120
"""Columns of the report as text."""

MOST_FILES = 1000
"""Numbers tried for a file name that is not in use."""


def render(snapshot: Snapshot, kind: str, machine: Standby | None) -> str:
    """Return the run as `html`, `txt` or `json`."""
    if kind == "html":
        from tcexplore.report.html_report import html_report

        return html_report(snapshot)
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
    moment = f"{datetime.fromtimestamp(snapshot.began):%Y%m%d-%H%M%S}" if snapshot.past else f"run{snapshot.run}"
    stem = f"{os.path.splitext(os.path.basename(snapshot.file))[0]}-{moment}"
    base = Path.cwd()
    names = (f"{stem}{f'-{n}' if n else ''}.{kind}" for n in range(MOST_FILES))
    path = next((base / name for name in names if not os.path.lexists(base / name)), base / f"{stem}.{kind}")
    try:
        return f"Saved {create(path, content)}."
    except NotWrittenError as error:
        return str(error)
