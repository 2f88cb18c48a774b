"""Short names of files, lines and frames."""

from __future__ import annotations

import os
import re
from functools import lru_cache

from tcexplore.events import Location
from tcexplore.events.base import backward_number

_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")


class Places:
    """Names of the locations of one run: the line in the model file, file and line elsewhere."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._known: dict[str, str] = {}

    def abbreviate(self, location: Location | None) -> str:
        """Return `17` in the model file, `blocks.py:17` in another, empty if unknown."""
        if location is None:
            return ""
        return (
            str(location.line) if location.file == self._file else f"{os.path.basename(location.file)}:{location.line}"
        )

    def describe(self, location: Location | None) -> str:
        """Return `line 17` in the model file, `models/blocks.py:17` in another, empty if unknown."""
        if location is None:
            return ""
        return f"line {location.line}" if location.file == self._file else f"{self.path(location.file)}:{location.line}"

    def path(self, file: str) -> str:
        """Return the display path of a file, computed once."""
        if file not in self._known:
            self._known[file] = display_path(file)
        return self._known[file]


@lru_cache(maxsize=8)
def places(file: str) -> Places:
    """Return the names of locations in runs of this file."""
    return Places(file)


def display_path(path: str, start: str | None = None) -> str:
    """Return a path relative to `start` (default: the working directory) if it lies inside.

    The path of an installed package starts at the name of the package.
    """
    try:
        return _relative(path, os.path.abspath(start) if start else os.getcwd())
    except FileNotFoundError:  # the current directory was removed
        return path


@lru_cache(maxsize=4096)  # a large report names some files very often
def _relative(path: str, start: str) -> str:
    whole = os.path.abspath(path)
    installed = _INSTALLED.search(whole)
    if installed:
        return whole[installed.end() :]
    return os.path.relpath(whole, start) if whole.startswith(start.rstrip(os.sep) + os.sep) else path


_COMPILE_ID = re.compile(r"(?:!\d+/)?(\d+)/(\d+)")


def explain_compile_id(compile_id: str) -> str:
    """Return what `0/1` means; empty for an id of another form."""
    numbers = _COMPILE_ID.match(compile_id)
    if numbers is None:
        return ""
    frame, times = numbers[1], int(numbers[2])
    again = f"recompile {times} of it" if times else "its first compile"
    return f"{compile_id} is torch's compile id: function {frame}, {again}"


def name_frame(compile_id: str, frame: Location | None) -> str:
    """Return the function of a frame, `backward 0 of compiled autograd` for a backward, empty if unknown."""
    if frame is not None:
        return frame.function or "frame"
    backward = backward_number(compile_id)
    return f"backward {backward} of compiled autograd" if backward else ""


def describe_frame(compile_id: str, frame: Location | None, where: str) -> str:
    """Return the function of a frame and its location: `train, line 19`."""
    return ", ".join(filter(None, (name_frame(compile_id, frame), where if frame else "")))
