"""The user's files in a trace: which files are the user's, and their text, from disk or from the trace."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from tcexplore.events import Location, clean
from tcexplore.torch_text.dynamo_names import function_name
from tcexplore.traces.record_index import Record

LARGEST_SOURCE = 4_000_000
"""Maximum size in bytes of a source file that is read from disk."""

_WORKER = r"[/\\]tcexplore[/\\](?:capture|worker|timing|accuracy|targets)[/\\]"
"""Files of tcexplore that run in the traced process."""

_FOREIGN = re.compile(
    rf"{_WORKER}|[/\\](?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python\d|^<|torchinductor_|[/\\]torchrun$"
    r"|[/\\]torch[/\\](?:_dynamo|_inductor|_functorch|_higher_order_ops|_ops|fx|nn|distributed|autograd|optim|utils)\b"
)
_TORCH_OR_PYTHON = re.compile(
    rf"{_WORKER}|[/\\](?:site|dist)-packages[/\\](?:torch|triton|_?pytest)[/\\]|[/\\]lib(?:64)?[/\\]python\d[^/\\]*[/\\](?!site-p|dist-p)"
    r"|^<|torchinductor_|[/\\]torch[/\\](?:_dynamo|_inductor|_functorch|_ops|fx|nn|distributed|autograd|optim)\b"
)


class TraceSources:
    """Files and lines that a trace names."""

    def __init__(self) -> None:
        self.folders: tuple[str, ...] = ()
        """Folders in which files are searched that are not at their paths."""
        self.main = ""
        """The file whose code calls the compiled code first, an absolute path of the traced machine."""
        self._adopted = False
        self._lines: dict[str, dict[int, str]] = defaultdict(dict)
        self.learned: list[tuple[str, int, str]] = []
        """File, number and text of each line of the user, in the order in which records told them."""
        self._owned: dict[str, bool] = {}
        self._texts: dict[str, str] = {}
        self._places: dict[tuple[str, int, str], Location] = {}
        """Locations so far: a large graph names a line many times."""

    def owns(self, file: str) -> bool:
        """Return whether a file is the user's.

        In a trace without such a file, a library that is neither torch's nor Python's counts as the user's.
        """
        owned = self._owned.get(file)
        if owned is None:
            pattern = _TORCH_OR_PYTHON if self._adopted else _FOREIGN
            owned = self._owned[file] = bool(file) and pattern.search(file) is None
        return owned

    def in_library(self, file: str) -> bool:
        """Return whether a file is of a library, other than torch, Triton and Python's own."""
        return bool(file) and not self.owns(file) and _TORCH_OR_PYTHON.search(file) is None

    def observe_stack(self, frames: Iterable[Location]) -> None:
        """Learn the main file from the stack of a compile, outermost frame first."""
        if self.main:
            return
        files = [frame.file for frame in frames]
        self.main = next(filter(self.owns, files), "")
        if not self.main and files:
            library = next((file for file in files if _TORCH_OR_PYTHON.search(file) is None), "")
            if library:
                self._adopted, self.main = True, library
                self._owned.clear()

    def observe_line(self, file: str, line: int, code: str) -> None:
        """Learn the text of a line."""
        if self.owns(file):
            self._located(file, line, "", code)

    def place(self, file: str, line: int, function: str, code: str = "") -> Location | None:
        """Return the location of a line of the user; None for any other."""
        return self._located(file, line, function, code) if self.owns(file) else None

    def place_inside(self, file: str, line: int, function: str, code: str = "") -> Location | None:
        """Return the location of a line of a library's function that was compiled: of the user or of a library."""
        return self._located(file, line, function, code) if self.owns(file) or self.in_library(file) else None

    def _located(self, file: str, line: int, function: str, code: str) -> Location:
        if code and line > 0 and line not in (known := self._lines[file]):
            known[line] = code
            self.learned.append((file, line, code))
        key = file, line, function
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = Location(file, line, function_name(function))
        return place

    def find(self, ending: str, line: int, function: str) -> Location | None:
        """Return the location in the user's file whose path has this ending."""
        file = next((file for file in self._lines if file.endswith(ending)), None)
        return Location(file, line, function_name(function)) if file else None

    def code(self, location: Location | None) -> str:
        """Return the text of a line that the trace holds, stripped; empty if it holds none."""
        return self._lines.get(location.file, {}).get(location.line, "").strip() if location else ""

    def qualify(self, name: str) -> str:
        """Return `module.function` for FX's `module_function` if a file of the user is that module, else the name."""
        if "." in name or "_" not in name:
            return name
        for module in ("__main__", *(os.path.splitext(file)[0] for file in self._lines)):
            parts = re.split(r"[/\\]", module)
            for count in range(min(3, len(parts)), 0, -1):
                own = parts[-count:]
                if name.startswith(prefix := "_".join(own) + "_"):
                    return f"{'.'.join(own)}.{name.removeprefix(prefix)}"
        return name

    @property
    def files(self) -> tuple[str, ...]:
        """The user's files with a known line, the main one first."""
        others = sorted(file for file in self._lines if file != self.main)
        return (self.main, *others) if self.main else tuple(others)

    def text(self, file: str) -> str:
        """Return the file's text from disk if all lines of the trace are in it, else the lines of the trace."""
        known = self._lines.get(file, {})
        if not known:
            return ""
        disk = self.whole_text(file)
        if disk is not None:
            return disk
        return "\n".join(known.get(n, "") for n in range(1, max(known) + 1)) + "\n"

    def whole_text(self, file: str) -> str | None:
        """Return the file's text from disk if all lines of the trace are in it; None if it is not on this machine."""
        known = self._lines.get(file, {})
        name = re.split(r"[/\\]", file)[-1]
        for path in (file, *(os.path.join(folder, name) for folder in self.folders)):
            disk = _read(path) if known else None
            if disk is not None and _agrees(disk.split("\n"), known):
                return clean(disk)
        return None


def _read(file: str) -> str | None:
    try:
        if os.path.getsize(file) > LARGEST_SOURCE or not os.path.isfile(file):
            return None
        with open(file, encoding="utf-8") as stream:
            return stream.read()
    except (OSError, ValueError):
        return None


def _agrees(disk: list[str], known: Mapping[int, str]) -> bool:
    return all(n <= len(disk) and disk[n - 1].strip() == code.strip().split("\n")[0] for n, code in known.items())


def read_string(record: Record, strings: dict[int, str]) -> None:
    """Read a text that later records refer to by its number, such as the path of a file."""
    with suppress(TypeError, ValueError):
        text, key = record.meta
        strings[int(key)] = clean(str(text))


def read_stack(stack: Any, strings: Mapping[int, str]) -> Iterator[tuple[Location, str]]:
    """Yield the frames of a stack with their code, outermost first."""
    for frame in stack if isinstance(stack, list) else ():
        if isinstance(frame, dict):
            name = frame.get("filename")
            file = strings.get(name, "") if isinstance(name, int) else clean(str(name or ""))
            line = frame.get("line")
            location = Location(file, line if isinstance(line, int) else 0, clean(str(frame.get("name") or "")))
            yield location, clean(str(frame.get("loc") or ""))
