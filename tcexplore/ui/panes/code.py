"""Pane 5: the generated kernels and the wrapper that calls them."""

from __future__ import annotations

from tcexplore.session import Snapshot
from tcexplore.ui.document import Document
from tcexplore.ui.panes.spec import PaneSpec


def _build(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.ui.documents.code import code

    return code(snapshot, toggled, width)


def _about(s: Snapshot) -> tuple[object, ...]:
    return s.kernels, s.wrappers, s.aten_graphs, s.fusion, s.complete, s.failed, s.missing


def _has(s: Snapshot) -> bool:
    return bool(s.kernels or s.wrappers)


CODE = PaneSpec("code", 5, "Code", _build, _about, _has, leads_to="source")
