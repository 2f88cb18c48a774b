"""Pane 5: the generated kernels and the wrapper that calls them; what was fused into each, and why not more."""

from __future__ import annotations

from tcexplore.session import Snapshot
from tcexplore.ui.document import Document
from tcexplore.ui.panes.spec import PaneSpec, View


def _kernels(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.ui.documents.code import code

    return code(snapshot, toggled, width)


def _fusion(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.ui.documents.fusion import fusion

    return fusion(snapshot, toggled, width)


def _over(s: Snapshot) -> tuple[object, ...]:
    """What both views are about: the kernels, or why there is nothing to show."""
    return s.kernels, s.wrappers, s.aten_graphs, s.graphs, s.skipped, s.complete, s.failed


def _about_kernels(s: Snapshot) -> tuple[object, ...]:
    return *_over(s), s.assembled, s.not_assembled, s.roofline


def _about_fusion(s: Snapshot) -> tuple[object, ...]:
    return *_over(s), s.fusion, s.missing


def _has(s: Snapshot) -> bool:
    return bool(s.kernels or s.wrappers)


CODE = PaneSpec(
    "code",
    5,
    "Code",
    (
        View("kernels", _kernels, _about_kernels, _has, frozenset({"kernel", "aten"})),
        View("fusion", _fusion, _about_fusion, _has, frozenset({"kernel"})),
    ),
)
