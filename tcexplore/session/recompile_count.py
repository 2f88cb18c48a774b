"""Recompiles counted as a user counts them: torch names every cache entry that did not match, newest first."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.events import Recompiled
from tcexplore.session.snapshot import Snapshot


def newest_causes(snapshot: Snapshot) -> Iterator[tuple[Recompiled, int]]:
    """Each recompile with the newest entry that did not match, and how many older ones did not match either."""
    by_graph: dict[str, list[Recompiled]] = {}
    for found in snapshot.recompiles:
        by_graph.setdefault(found.graph, []).append(found)
    return ((entries[0], len(entries) - 1) for entries in by_graph.values())
