"""The report as JSON text: a line for each key, and for each object in a list.

Python's encoder is ten times as fast without indentation, which takes minutes for a large trace. Of a large report,
forked processes write the long lists while this one writes the rest: the records of the run need not be copied.
"""

from __future__ import annotations

import json
import os
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import IO, Any, NamedTuple

from tcexplore.processes import Forked, shares

Pieces = Iterable[tuple[str, Any]]
"""Keys with their values; a value may be a `LongList`."""

LEAST_OBJECTS = 20_000
"""Objects in the long lists from which on more processes pay off."""

_COPIED = 1 << 20
"""Bytes that are copied at a time."""


class LongList(NamedTuple):
    """A list of objects that are made record by record: the list of a large report is never in memory."""

    records: Sequence[Any]
    objects: Callable[[Any], Iterable[Any]]
    """Returns the objects of a record."""
    weight: Callable[[Any], int]
    """Returns how many objects those of a record are, with the objects inside them."""

    def all(self, start: int = 0, stop: int | None = None) -> Iterator[Any]:
        """Yield the objects of all records, or of those in a range."""
        for number in range(*slice(start, stop).indices(len(self.records))):
            yield from self.objects(self.records[number])


class _Range(NamedTuple):
    """Records of a list, by position, whose objects one process writes."""

    key: str
    part: int
    start: int
    stop: int


def json_lines(pieces: Pieces, members: Callable[[str, LongList], Iterator[str]] | None = None) -> Iterator[str]:
    """Yield the text of an object piece by piece; the last piece ends the line.

    `members` returns the texts of the objects of a long list by its key, each after a comma.
    """
    separator = "{\n"
    for key, value in pieces:
        yield f"{separator} {json.dumps(key)}: "
        separator = ",\n"
        if isinstance(value, LongList):
            yield from _list(members(key, value) if members else _members(value.all()))
        elif isinstance(value, list | tuple) and value and isinstance(value[0], dict):
            yield from _list(_members(value))
        else:
            yield json.dumps(value)
    yield "\n}\n"


def _members(objects: Iterable[Any]) -> Iterator[str]:
    """Yield the objects of a list, each after a comma and on a line of its own."""
    return (f",\n  {json.dumps(each)}" for each in objects)


def _list(members: Iterable[str]) -> Iterator[str]:
    opening = "["
    for text in members:
        yield opening
        yield text[1:] if opening else text
        opening = ""
    yield "[]" if opening else "\n ]"


def write_report(pieces: Pieces, stream: IO[str], lists: Mapping[str, LongList]) -> None:
    """Write a report; forked processes write its long lists, if these are large, before the first piece is made."""
    count = shares()
    if count < 2 or sum(map(_weight, lists.values())) < LEAST_OBJECTS:
        stream.writelines(json_lines(pieces))
        return
    for each in lists.values():
        next(each.all(), None)  # makes the tables that its objects share, once for all processes
    ranges = [_Range(key, *part) for key, each in lists.items() for part in _parts(each, count)]
    with _ForkedLists(lists, ranges, count) as written:
        stream.writelines(json_lines(pieces, written.members))


def _weight(of: LongList) -> int:
    return sum(map(of.weight, of.records))


def _parts(of: LongList, count: int) -> Iterator[tuple[int, int, int]]:
    """Yield the number of a process, and the records that it writes: all parts are equally large."""
    sums = list(accumulate(map(of.weight, of.records)))
    total = sums[-1] if sums else 0
    ends = [bisect_left(sums, total * (part + 1) / count) + 1 for part in range(count - 1)] + [len(sums)]
    start = 0
    for part, end in enumerate(ends):
        stop = min(max(start, end), len(sums))
        yield part, start, stop
        start = stop


class _ForkedLists:
    """The texts of long lists that forked processes write into a temporary file each."""

    def __init__(self, lists: Mapping[str, LongList], ranges: Sequence[_Range], count: int) -> None:
        self._lists = lists
        self._ranges = ranges
        self._files = [tempfile.TemporaryFile() for _ in range(count)]  # noqa: SIM115  closed at the end of the block
        self._written: dict[_Range, tuple[int, int]] = {}
        """First byte and end of each text in the file of its process."""
        self._forked = Forked([self._write(part) for part in range(count)])
        self._ready = iter(self._forked)

    def _write(self, part: int) -> Iterator[tuple[_Range, int, int]]:
        file = self._files[part]
        for each in self._ranges:
            if each.part == part:
                start = file.tell()
                for text in _members(self._lists[each.key].all(each.start, each.stop)):
                    file.write(text.encode())
                file.flush()
                yield each, start, file.tell()

    def __enter__(self) -> _ForkedLists:
        return self

    def members(self, key: str, of: LongList) -> Iterator[str]:
        """Yield the text of a list piece by piece, once it is there; what a process failed to write is made here."""
        for each in self._ranges:
            if each.key == key:
                yield from self._text(each) if self._is_written(each) else _members(of.all(each.start, each.stop))

    def _is_written(self, wanted: _Range) -> bool:
        """Wait for a text; return whether its process has written it."""
        while wanted not in self._written and (ready := next(self._ready, None)) is not None:
            written, start, end = ready
            self._written[written] = start, end
        return wanted in self._written

    def _text(self, of: _Range) -> Iterator[str]:
        start, end = self._written[of]
        for at in range(start, end, _COPIED):
            # At a position: the file's own is that of the process that still writes.
            yield os.pread(self._files[of.part].fileno(), min(_COPIED, end - at), at).decode()

    def __exit__(self, *_: object) -> None:
        self._forked.close()
        for file in self._files:
            file.close()
