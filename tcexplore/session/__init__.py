"""Immutable snapshots built from events; imports neither torch nor Textual."""

from __future__ import annotations

from tcexplore.session.history import RunSummary, Session, changes, summarize
from tcexplore.session.snapshot import Snapshot

__all__ = ["RunSummary", "Session", "Snapshot", "changes", "summarize"]
