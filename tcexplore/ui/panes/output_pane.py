"""Pane 7: what the user's program printed, and the error that ended it."""

from __future__ import annotations

from tcexplore.documents.document import Document
from tcexplore.session import Snapshot
from tcexplore.ui.panes.pane_spec import PaneSpec, View


def _output(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.output_view import output_document

    return output_document(snapshot, toggled, width)


def _about(s: Snapshot) -> tuple[object, ...]:
    until_then = () if s.output else (s.phase, s.phase_graph)
    return s.output, s.output_dropped, s.failure, s.missing_facts, s.complete, *until_then


OUTPUT = PaneSpec("output", 7, "Output", (View("output", _output, _about, lambda _: True),))
