"""Pane 1: the person's file with what became of each line in the gutter."""

from __future__ import annotations

from tcexplore.session import Snapshot
from tcexplore.ui.document import Document
from tcexplore.ui.panes.spec import PaneSpec


def _build(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.ui.documents.source import source

    return source(snapshot, toggled, width)


def _about(s: Snapshot) -> tuple[object, ...]:
    return s.source, s.graphs, s.breaks, s.guards, s.kernels, s.failed


SOURCE = PaneSpec("source", 1, "Source", _build, _about, has=lambda _: True, leads_to="graph")
