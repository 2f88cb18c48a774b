"""Events in, immutable snapshots out: pure state, with no torch and no textual."""

from __future__ import annotations

from tcexplore.session.history import Session
from tcexplore.session.run_summary import RunSummary, changes, summarize
from tcexplore.session.snapshot import Snapshot

__all__ = ["RunSummary", "Session", "Snapshot", "changes", "summarize"]
