"""Events in, immutable snapshots out: pure state, with no torch and no textual."""

from __future__ import annotations

from tcexplore.session.history import Session
from tcexplore.session.snapshot import Snapshot
from tcexplore.session.summary import Summary, changes, summarise

__all__ = ["Session", "Snapshot", "Summary", "changes", "summarise"]
