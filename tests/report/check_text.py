"""The printed report of a run."""

from __future__ import annotations

import io
from functools import partial

from tcexplore import events as ev
from tcexplore.report.check_report import check_report
from tcexplore.report.printed import print_document
from tcexplore.session import Snapshot

MACHINE = ev.Standby(torch="2.13.0+cpu", python="3.11.7", device="cpu", seconds=4.2)


def check_text(snapshot: Snapshot, width: int | None = None, exceeded: tuple[str, ...] = ()) -> str:
    """Return what `tcexplore check` prints."""
    stream = io.StringIO()
    print_document(partial(check_report, snapshot, MACHINE, exceeded, None), stream, width)
    return stream.getvalue()
