"""The report as JSON text: a line for each key, and for each object in a list.

Python's encoder is ten times as fast without indentation, which takes minutes for a large trace. Of a large report, a
forked process writes the longest list while this one writes the rest: the records of the run need not be copied.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import takewhile
from typing import IO, Any, NamedTuple

Pieces = Iterable[tuple[str, Any]]
"""Keys with their values; a value may be an iterator of objects."""

LEAST_OBJECTS = 20_000
"""Objects in the longest list from which on a second process pays off."""


def json_lines(pieces: Pieces) -> Iterator[str]:
    """Yield the text of an object piece by piece; the last piece ends the line."""
    yield "{"
    yield from _members(pieces, "\n")
    yield "\n}\n"


class LongList(NamedTuple):
    """The longest list of a report."""

    key: str
    objects: Iterable[Any]
    parts: int
    """Number of its objects with those inside them."""


def write_report(pieces: Pieces, stream: IO[str], longest: LongList) -> None:
    """Write a report. Of a large one, a forked process begins with the longest list before the first piece is made."""
    if longest.parts < LEAST_OBJECTS or not _may_fork():
        stream.writelines(json_lines(pieces))
        return
    with _ForkedList(longest.objects) as text, tempfile.TemporaryFile("w+", encoding="utf-8") as after:
        rest = iter(pieces)
        separator = "{"
        for member in _members(takewhile(lambda piece: piece[0] != longest.key, rest), "{\n"):
            stream.write(member)
            separator = ","
        after.writelines(_members(rest, ",\n"))
        stream.write(f"{separator}\n {json.dumps(longest.key)}: ")
        text.copy_to(stream)
        after.seek(0)
        shutil.copyfileobj(after, stream)
        stream.write("\n}\n")


def _members(pieces: Pieces, separator: str) -> Iterator[str]:
    """Yield the members of an object, each after a separator, the first one after `separator`."""
    for key, value in pieces:
        yield f"{separator} {json.dumps(key)}: "
        separator = ",\n"
        objects = isinstance(value, list | tuple) and value and isinstance(value[0], dict)
        if objects or isinstance(value, Iterator):
            yield from _list_lines(value)
        else:
            yield json.dumps(value)


def _list_lines(objects: Iterable[Any]) -> Iterator[str]:
    opening = "["
    for each in objects:
        yield f"{opening}\n  {json.dumps(each)}"
        opening = ","
    yield "\n ]" if opening == "," else "[]"


def _may_fork() -> bool:
    """Return whether a second process has a core, and no other thread could hold a lock in it."""
    return hasattr(os, "fork") and (os.cpu_count() or 1) > 1 and threading.active_count() == 1


class _ForkedList:
    """The text of a list that a forked process writes into a temporary file."""

    def __init__(self, objects: Iterable[Any]) -> None:
        self._objects = objects
        self._file = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  closed at the end of the block
        self._pid = os.fork()
        if not self._pid:
            self._write_and_exit()

    def _write_and_exit(self) -> None:
        status = 1
        try:
            self._file.writelines(_list_lines(self._objects))
            self._file.flush()
            status = 0
        finally:
            os._exit(status)  # without the exit handlers and the buffers of the parent

    def __enter__(self) -> _ForkedList:
        return self

    def copy_to(self, stream: IO[str]) -> None:
        """Wait for the text, and copy it; if the process failed, make it here."""
        status = self._wait()
        if status:
            stream.writelines(_list_lines(self._objects))
            return
        self._file.seek(0)
        shutil.copyfileobj(self._file, stream, 1 << 20)

    def _wait(self) -> int:
        pid, self._pid = self._pid, 0
        return os.waitpid(pid, 0)[1]

    def __exit__(self, *_: object) -> None:
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._wait()
        self._file.close()
