"""Pane 5: the generated kernels and the wrapper that calls them; what was fused, and what a device makes of them."""

from __future__ import annotations

from collections.abc import Sequence

from tcexplore.documents.document import Document
from tcexplore.session import Snapshot
from tcexplore.session.links import Link
from tcexplore.ui.panes.pane_spec import PaneSpec, View


def _kernels(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.code.kernels_view import kernels_document

    return kernels_document(snapshot, toggled, width)


def _fusion(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.code.fusion_view import fusion_document

    return fusion_document(snapshot, toggled, width)


def _stages(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.code.stages_view import stages_document

    return stages_document(snapshot, toggled, width)


def _opens(snapshot: Snapshot, links: Sequence[Link]) -> frozenset[str]:
    from tcexplore.documents.code.stages_view import hiding

    return hiding(snapshot, links)


def _resources(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.code.resources_view import resources_document

    return resources_document(snapshot, toggled, width)


def _roofline(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.code.roofline_view import roofline_document

    return roofline_document(snapshot, toggled, width)


def _tuning(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.code.autotuning_view import autotuning_document

    return autotuning_document(snapshot, toggled, width)


def _over(s: Snapshot) -> tuple[object, ...]:
    """What every view is about: the kernels, or why there is nothing to show."""
    return s.code.kernels, s.code.wrappers, s.code.aten_graphs, s.graphs, s.skipped_frames, s.complete, s.failure


def _about_device(s: Snapshot) -> tuple[object, ...]:
    """What the code is for, and what its assembler and its device make of it."""
    return (
        *_over(s),
        s.target,
        s.code.lowered,
        s.code.not_lowered,
        s.device_queries,
        s.code.assembled,
        s.code.not_assembled,
        s.code.roofline,
        s.kernel_times,
        s.code.vectorized,
    )


def _about_fusion(s: Snapshot) -> tuple[object, ...]:
    return *_over(s), s.code.fusion, s.code.schedules, s.missing_facts


def _about_tuning(s: Snapshot) -> tuple[object, ...]:
    return *_over(s), s.autotuned


def _has(s: Snapshot) -> bool:
    return bool(s.code.kernels or s.code.wrappers)


CODE = PaneSpec(
    "code",
    5,
    "Code",
    (
        View("kernels", _kernels, _about_device, _has, frozenset({"kernel", "aten"})),
        View("fusion", _fusion, _about_fusion, _has, frozenset({"kernel"})),
        View("stages", _stages, _about_device, _has, frozenset({"statement", "kernel"}), _opens),
        View("resources", _resources, _about_device, _has, frozenset({"kernel"})),
        View("roofline", _roofline, _about_device, _has, frozenset({"kernel"})),
        View("autotuning", _tuning, _about_tuning, _has, frozenset({"kernel"})),
    ),
)
