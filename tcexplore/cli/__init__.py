"""The command line: arguments, the terminal guard, choosing a front end. Light to import: the rest comes lazily."""

from __future__ import annotations

from tcexplore.cli.main import main

__all__ = ["main"]
