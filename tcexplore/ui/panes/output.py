"""Pane 7: what the person's program printed, and the error that ended it."""

from __future__ import annotations

from tcexplore.session import Snapshot
from tcexplore.ui.document import Document
from tcexplore.ui.panes.spec import PaneSpec


def _build(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.ui.documents.output import output

    return output(snapshot, toggled, width)


def _about(s: Snapshot) -> tuple[object, ...]:
    return s.output, s.failed, s.missing, s.complete


OUTPUT = PaneSpec("output", 7, "Output", _build, _about, has=lambda _: True, leads_to="source")
