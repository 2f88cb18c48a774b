"""Management of worker processes in the front end: start, assign, replace and end them. Never imports torch."""

from __future__ import annotations

from tcexplore.supervisor.supervisor import STANDBYS, Supervisor

__all__ = ["STANDBYS", "Supervisor"]
