"""Pane 4: the guards of each graph, and the recompiles that they caused."""

from __future__ import annotations

from tcexplore.session import Snapshot
from tcexplore.ui.document import Document
from tcexplore.ui.panes.spec import PaneSpec, View


def _guards(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.ui.documents.guards import guards

    return guards(snapshot, toggled, width)


def _about(s: Snapshot) -> tuple[object, ...]:
    return s.guards, s.recompiles, s.graphs, s.skipped, s.complete, s.failed, s.missing


def _has(s: Snapshot) -> bool:
    return bool(s.guards or s.recompiles)


GUARDS = PaneSpec("guards", 4, "Guards", (View("guards", _guards, _about, _has, frozenset({"guard"})),))
