"""The front end's side of the worker processes: start, feed, replace and end them. Never imports torch."""

from __future__ import annotations

from tcexplore.supervisor.supervisor import Supervisor

__all__ = ["Supervisor"]
