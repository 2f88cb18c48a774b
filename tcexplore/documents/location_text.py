"""Where in the user's files something is, as short as it can be said."""

from __future__ import annotations

import os
from functools import lru_cache

from tcexplore.documents.paths import display_path
from tcexplore.events import Location


class Places:
    """Names of locations for one run: in the user's file the line alone, in others the file's name as well."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._known: dict[str, str] = {}

    def abbreviate(self, location: Location | None) -> str:
        """`17` in the user's file, `blocks.py:17` in another, empty where unknown."""
        if location is None:
            return ""
        return (
            str(location.line) if location.file == self._file else f"{os.path.basename(location.file)}:{location.line}"
        )

    def describe(self, location: Location | None) -> str:
        """`line 17` in the user's file, `models/blocks.py:17` in another, empty where unknown."""
        if location is None:
            return ""
        return f"line {location.line}" if location.file == self._file else f"{self.path(location.file)}:{location.line}"

    def path(self, file: str) -> str:
        """The path from the working directory where the file is inside it, else the whole."""
        if file not in self._known:
            self._known[file] = display_path(file)
        return self._known[file]


@lru_cache(maxsize=8)
def places(file: str) -> Places:
    """The names for runs of this file."""
    return Places(file)
