"""Pane 4: the guards of each graph, and the recompiles that they caused."""

from __future__ import annotations

from tcexplore.documents.document import Document
from tcexplore.session import Snapshot
from tcexplore.ui.panes.pane_spec import PaneSpec, View


def _guards(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.guards.guards_view import guards_document

    return guards_document(snapshot, toggled, width)


def _lineage(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.guards.cache_entries_view import cache_entries_document

    return cache_entries_document(snapshot, toggled, width)


def _symbols(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.guards.symbols_view import symbols_document

    return symbols_document(snapshot, toggled, width)


def _would(snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document:
    from tcexplore.documents.guards.recompile_check_view import recompile_check_document

    return recompile_check_document(snapshot, toggled, width)


def _about(s: Snapshot) -> tuple[object, ...]:
    return s.guards, s.recompiles, s.graphs, s.skipped_frames, s.complete, s.failure, s.missing_facts


def _about_lineage(s: Snapshot) -> tuple[object, ...]:
    # A span of the compile arrives with every step of it; only its end says what an entry cost.
    return (*_about(s), s.frames, s.calls, s.region_compiles, s.phase_times if s.complete or s.failure else ())


def _about_symbols(s: Snapshot) -> tuple[object, ...]:
    return *_about(s), s.symbols, s.frames


def _about_would(s: Snapshot) -> tuple[object, ...]:
    return *_about(s), s.recompile_answers, s.frames, s.entry


def _has(s: Snapshot) -> bool:
    return bool(s.guards or s.recompiles)


def _has_would(s: Snapshot) -> bool:
    return _has(s) or bool(s.recompile_answers)


GUARDS = PaneSpec(
    "guards",
    4,
    "Guards",
    (
        View("guards", _guards, _about, _has, frozenset({"guard"})),
        View("lineage", _lineage, _about_lineage, _has, frozenset({"entry", "guard"})),
        View("symbols", _symbols, _about_symbols, _has),
        View("would it?", _would, _about_would, _has_would, frozenset({"entry"})),
    ),
)
