"""The command line. Importing it is cheap: commands are imported when they run."""

from __future__ import annotations

from tcexplore.cli.main import main

__all__ = ["main"]
