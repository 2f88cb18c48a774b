"""Immutable snapshots built from events; imports neither torch nor Textual."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcexplore.session.history import RunSummary, Session, changes, summarize

if TYPE_CHECKING:
    from tcexplore.session.snapshot import Snapshot
else:

    def __getattr__(name: str) -> type:
        """Import the snapshot of a run for the first module that uses it: the first frame of the app shows no run."""
        if name == "Snapshot":
            from tcexplore.session.snapshot import Snapshot

            return Snapshot
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["RunSummary", "Session", "Snapshot", "changes", "summarize"]
