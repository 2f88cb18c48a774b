"""Pane 2: the FX graphs with the breaks between them, as rows or as torch's code, and what became of them below."""

from __future__ import annotations

from tcexplore.documents.document import Document
from tcexplore.session import Snapshot
from tcexplore.ui.panes.pane_spec import PaneSpec, View


def _nodes(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.graph.graph_view import graph_document

    return graph_document(snapshot, toggled, width)


def _code(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.graph.graph_view import readable_document

    return readable_document(snapshot, toggled, width)


def _decomposition(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.graph.decomposition_view import decomposition_document

    return decomposition_document(snapshot, toggled, width)


def _aot(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.graph.aot_view import aot_document

    return aot_document(snapshot, toggled, width)


def _passes(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.graph.passes_view import passes_document

    return passes_document(snapshot, toggled, width)


def _over(s: Snapshot) -> tuple[object, ...]:
    """What every view is about: the graphs, or why there is nothing to show."""
    return s.graphs, s.recompiles, s.skipped_frames, s.complete, s.failure


def _about_nodes(s: Snapshot) -> tuple[object, ...]:
    return *_over(s), s.breaks, s.code.kernels, s.code.aten_graphs


def _about_decomposition(s: Snapshot) -> tuple[object, ...]:
    return *_about_nodes(s), s.guards, s.sources


def _about_aot(s: Snapshot) -> tuple[object, ...]:
    return *_over(s), s.code.kernels, s.code.wrappers, s.code.aten_graphs, s.code.partitions, s.missing_facts


def _about_passes(s: Snapshot) -> tuple[object, ...]:
    return *_over(s), s.code.passes, s.cache_lookups, s.missing_facts


def _captured(s: Snapshot) -> bool:
    return bool(s.graphs)


GRAPH = PaneSpec(
    "graph",
    2,
    "Graph",
    (
        View("nodes", _nodes, _about_nodes, _captured, frozenset({"node"})),
        View("code", _code, _over, _captured, frozenset({"node"})),
        View("decomp", _decomposition, _about_decomposition, _captured, frozenset({"line", "node", "aten"})),
        View("aot", _aot, _about_aot, lambda s: bool(s.code.aten_graphs), frozenset({"aten"})),
        View("passes", _passes, _about_passes, lambda s: bool(s.code.passes)),
    ),
)
