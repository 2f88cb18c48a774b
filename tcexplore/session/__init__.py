"""Events in, immutable snapshots out: pure state, with no torch and no textual."""

from __future__ import annotations

from tcexplore.session.history import Session
from tcexplore.session.run_summary import Summary, changes, summarize
from tcexplore.session.snapshot import Snapshot

__all__ = ["Session", "Snapshot", "Summary", "changes", "summarize"]
