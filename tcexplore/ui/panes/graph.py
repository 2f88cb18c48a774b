"""Pane 2: the FX graphs, one row a node, with the breaks between them, or as torch's code."""

from __future__ import annotations

from tcexplore.session import Snapshot
from tcexplore.ui.document import Document
from tcexplore.ui.panes.spec import PaneSpec


def _build(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.ui.documents.graph import graph

    return graph(snapshot, toggled, width)


def _as_code(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.ui.documents.graph_code import graph_code

    return graph_code(snapshot, toggled, width)


def _about(s: Snapshot) -> tuple[object, ...]:
    return s.graphs, s.breaks, s.kernels, s.aten_graphs, s.skipped, s.complete, s.failed


GRAPH = PaneSpec("graph", 2, "Graph", _build, _about, has=lambda s: bool(s.graphs), leads_to="code", other=_as_code)
