"""Pane 1: the user's file with what became of each line in the gutter."""

from __future__ import annotations

from tcexplore.documents.document import Document
from tcexplore.session import Snapshot
from tcexplore.ui.panes.pane_spec import PaneSpec, View


def _source(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.source.source_view import source_document

    return source_document(snapshot, toggled, width)


def _about(s: Snapshot) -> tuple[object, ...]:
    return s.source, s.sources, s.graphs, s.code.aten_graphs, s.breaks, s.skipped_frames, s.guards, s.code.kernels


SOURCE = PaneSpec("source", 1, "Source", (View("source", _source, _about, lambda _: True, frozenset({"line"})),))
