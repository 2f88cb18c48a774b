"""The plugin's fixture, also where the package is not installed."""

from __future__ import annotations

from tcexplore.pytest_plugin import tcexplore

__all__ = ["tcexplore"]
