"""Pane 3: the graph breaks, why they are there, and what to write instead."""

from __future__ import annotations

from tcexplore.documents.document import Document
from tcexplore.session import Snapshot
from tcexplore.ui.panes.pane_spec import PaneSpec, View


def _breaks(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.breaks_view import breaks_document

    return breaks_document(snapshot, toggled, width)


def _about(s: Snapshot) -> tuple[object, ...]:
    return s.breaks, s.skipped_frames, s.graphs, s.eager_ops, s.break_costs, s.complete, s.failure


def _has(s: Snapshot) -> bool:
    return bool(s.breaks or s.graphs or s.skipped_frames)


BREAKS = PaneSpec("breaks", 3, "Breaks", (View("breaks", _breaks, _about, _has, frozenset({"break", "line"})),))
