"""Pane 6: eager against compiled, as measured so far."""

from __future__ import annotations

from tcexplore.documents.document import Document
from tcexplore.session import Snapshot
from tcexplore.ui.panes.pane_spec import PaneSpec, View


def _timing(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.timing.timing_view import timing_document

    return timing_document(snapshot, toggled, width)


def _about(s: Snapshot) -> tuple[object, ...]:
    return (
        s.device,
        s.cuda_graphs,
        s.cuda_graphs_skipped,
        s.timing,
        s.pairs,
        s.calls,
        s.call_profile,
        s.phase_times,
        s.code.kernels,
        s.timing_skipped,
        s.accuracy,
        s.memory,
        s.code.partitions,
        s.other_codes,
        s.graphs,
        s.recompiles,
        s.skipped_frames,
        s.kernel_compiles,
        s.cache_lookups,
        s.complete,
        s.failure,
        s.status,
        s.expected_calls,
        s.regions,
        s.region_calls,
        s.region_compiles,
        s.backward_captures,
    )


def _has(s: Snapshot) -> bool:
    return bool(s.timing or s.pairs or s.timing_skipped or s.regions)


def _time_line(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.timing.timeline_view import timeline_document

    return timeline_document(snapshot, toggled, width)


def _ship(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.timing.state_dict_view import state_dict_document

    return state_dict_document(snapshot, toggled, width)


def _about_ship(s: Snapshot) -> tuple[object, ...]:
    return s.state_keys, s.entry, s.graphs, s.skipped_frames, s.complete, s.failure, s.missing_facts


def _has_ship(s: Snapshot) -> bool:
    return s.state_keys is not None or s.complete


def _about_regions(s: Snapshot) -> tuple[object, ...]:
    return (
        s.regions, s.region_calls, s.region_compiles, s.region_graphs, s.recompiles, s.phase_times, s.script_end,
        s.entry,
        s.backward_captures, s.graphs, s.skipped_frames, s.complete, s.failure,
    )  # fmt: skip


def _has_regions(s: Snapshot) -> bool:
    return bool(s.regions) or s.complete


TIMING = PaneSpec(
    "timing",
    6,
    "Timing",
    (
        View("timing", _timing, _about, _has),
        View("time line", _time_line, _about_regions, _has_regions),
        View("ship it", _ship, _about_ship, _has_ship),
    ),
)
