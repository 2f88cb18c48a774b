"""Paths as a user wants to read them."""

from __future__ import annotations

import os
import re

from tcexplore.events import Location

_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")


def display_path(path: str, start: str | None = None) -> str:
    """A path relative to `start` (default: the working directory) when it lies inside, an installed library's from
    the library's name on, else as it is."""
    start = os.path.abspath(start or os.curdir)
    whole = os.path.abspath(path)
    installed = _INSTALLED.search(whole)
    if installed:
        return whole[installed.end() :]
    return os.path.relpath(whole, start) if whole.startswith(start.rstrip(os.sep) + os.sep) else path


def at(location: Location | None, file: str) -> str:
    """`line 17` in the user's file, `blocks.py:17` in another, empty where unknown."""
    if location is None:
        return ""
    same = os.path.abspath(location.file) == os.path.abspath(file)
    return f"line {location.line}" if same else f"{display_path(location.file)}:{location.line}"
