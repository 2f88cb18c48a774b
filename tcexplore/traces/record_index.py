"""Index of the records in one trace file: where each record begins, and its kind. Heads and payloads are decoded late.

A record is one line, `V1121 20:52:25.643000 PID path:LINE] {json}`, then the lines of its payload, each after a tab.
"""

from __future__ import annotations

import hashlib
import json
import mmap as mmap_module
import re
from array import array
from collections.abc import Iterator
from datetime import datetime
from mmap import PAGESIZE, mmap
from typing import Any, NamedTuple

from tcexplore.events import clean
from tcexplore.events.base import join_compile_id
from tcexplore.traces.trace_content import TraceContent

Buffer = bytes | bytearray | mmap

_HEAD = re.compile(
    rb'\n[VIWE](\d{4}) (\d\d:\d\d:\d\d\.\d+) (\d+) [^\n\]]*\] \{"([\w./-]{1,200})": (?:\{"name": "([^"\n]{0,200})")?'
)
_ANY_HEAD = re.compile(rb"\n[VIWE]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ ")
_TAIL_BYTES = 1 << 18
_JSON_START = b"] {"
_BLOCK = 1 << 25
"""Bytes per step of `RecordIndex.extend`."""


LARGEST_HEAD = 16 << 20
"""Bytes of a head that is decoded."""

LARGEST_PAYLOAD = 64 << 20
"""Bytes of a payload that is decoded: its text takes several times as much memory."""

_ESCAPED = re.compile(r"\\u(?:00[0189]|007[fF]|20[0-6]|[dD][89a-fA-F]|[fF][eE])")
"""Escapes of characters that `clean` may replace."""


def decode_json(text: str) -> Any:
    """Return JSON with cleaned strings: an escape may hide a control character. Raise ValueError or RecursionError."""
    value = json.loads(text)
    return _cleaned(value) if _ESCAPED.search(text) else value


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


_SAFE = b"\t\n" + bytes(range(0x20, 0x7F))


def _decoded(raw: bytes) -> str:
    """Return a text, cleaned. Only its other characters are searched for unsafe ones: most payloads are ASCII."""
    text = raw.decode("utf-8", "replace")
    rest = raw.translate(None, _SAFE).decode("utf-8", "replace")
    return text if clean(rest) == rest else clean(text)


class BadRecordError(ValueError):
    """A record cannot be decoded; the message names its place."""


class Record(NamedTuple):
    """One record with its decoded head."""

    number: int
    """Position in the file, from 0."""
    kind: str
    """The kind of record; for an artifact, the artifact's name."""
    meta: Any
    """The value of the head's first key."""
    envelope: dict[str, Any]
    """The whole head: rank, compile id, attempt, stack."""
    graph: str
    """Compile id; empty outside a compile."""

    @property
    def attempt(self) -> int:
        """Number of the attempt to trace the frame."""
        attempt = self.envelope.get("attempt")
        return attempt if isinstance(attempt, int) else 0

    @property
    def checksum(self) -> str:
        """MD5 of the payload; empty without a payload."""
        return str(self.envelope.get("has_payload") or "")


class RecordIndex:
    """Records of a buffer that may still grow."""

    def __init__(self, data: Buffer | TraceContent) -> None:
        self._source = data
        self.starts = array("Q")
        self._kind_of = array("H")
        self.kinds: list[str] = []
        """Kinds in the order of their first record."""
        self._kind_ids: dict[tuple[bytes, bytes | None], int] = {}
        self.pids: dict[int, int] = {}
        """Process ids by the first record number of each change of process."""
        self.scanned = 0
        """Bytes that were searched for record heads."""
        self._first_done = False

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def _data(self) -> Buffer:
        """The buffer; a file may have to be mapped again."""
        return self._source.buffer() if isinstance(self._source, TraceContent) else self._source

    @property
    def size(self) -> int:
        """Bytes of the buffer."""
        return self._source.size if isinstance(self._source, TraceContent) else len(self._source)

    def extend(self, limit: int = _BLOCK) -> bool:
        """Index at least `limit` more bytes; return whether the whole buffer is indexed.

        Only whole lines are searched: the last line of a growing file may be incomplete.
        """
        data, size = self._data, len(self._data)
        end = data.find(b"\n", self.scanned + limit)
        if end < 0:
            end = data.rfind(b"\n")
        if end < self.scanned:
            return True
        if not self._first_done:
            self._first_done = True
            self._add_first()
        pid, last = self._last_pid(), self.starts[-1] if self.starts else -1
        for match in _HEAD.finditer(data, self.scanned, end):
            start = match.start() + 1
            if start > last:
                pid = self._add(start, match, pid)
        self._release(self.scanned, end)
        self.scanned = end
        return data.find(b"\n", end + 1) < 0 or end >= size - 1

    def finish(self) -> None:
        """Index the rest."""
        while not self.extend():
            pass

    def _release(self, start: int, end: int) -> None:
        """Remove indexed pages of a mapped file from this process's memory; the system keeps them in its cache."""
        advise = getattr(mmap_module, "MADV_DONTNEED", None)
        first, last = -(-start // PAGESIZE) * PAGESIZE, end // PAGESIZE * PAGESIZE
        data = self._data
        if advise is not None and isinstance(data, mmap) and last > first:
            data.madvise(advise, first, last - first)

    def grow(self, data: Buffer) -> None:
        """Continue in a larger buffer with the same beginning. The last record may have grown too."""
        self._source = data

    def _add_first(self) -> None:
        """Add the record at the beginning of the buffer, which no newline precedes."""
        head = b"\n" + bytes(self._data[: self._data.find(b"\n")])
        match = _HEAD.match(head)
        if match is not None:
            self._add(0, match, -1)

    def _add(self, start: int, match: re.Match[bytes], pid: int) -> int:
        key = (match[4], match[5] if match[4] == b"artifact" else None)
        kind = self._kind_ids.get(key)
        if kind is None:
            kind = self._kind_ids[key] = min(len(self.kinds), 0xFFFF)
            self.kinds.append(clean((key[1] or key[0]).decode("utf-8", "replace")))
        own = int(match[3])
        if own != pid:
            self.pids[len(self.starts)] = own
        self.starts.append(start)
        self._kind_of.append(kind)
        return own

    def _last_pid(self) -> int:
        return next(reversed(self.pids.values()), -1)

    # ---- one record

    def kind(self, number: int) -> str:
        """Return the kind of a record."""
        return self.kinds[self._kind_of[number]]

    def numbers(self, kinds: frozenset[str] | None = None, start: int = 0) -> Iterator[int]:
        """Yield the numbers of the records of these kinds, all if None, from the record `start`."""
        if kinds is None:
            yield from range(start, len(self.starts))
            return
        wanted = {n for n, kind in enumerate(self.kinds) if kind in kinds}
        of = self._kind_of
        yield from (n for n in range(start, len(of)) if of[n] in wanted)

    def counts(self) -> dict[str, int]:
        """Return the number of records of each kind."""
        totals = [0] * len(self.kinds)
        for kind in self._kind_of:
            totals[kind] += 1
        merged: dict[str, int] = {}
        for kind_name, total in zip(self.kinds, totals, strict=True):
            merged[kind_name] = merged.get(kind_name, 0) + total
        return merged

    def _bounds(self, number: int) -> tuple[int, int, int]:
        """Return start, end of the head, end of the record."""
        start = self.starts[number]
        last = number + 1 >= len(self.starts)
        end = len(self._data) if last else self.starts[number + 1] - 1
        if last and end > start and self._data[end - 1 : end] == b"\n":
            end -= 1
        head_end = self._data.find(b"\n", start, end)
        return start, end if head_end < 0 else head_end, end

    def record(self, number: int) -> Record:
        """Return a record. Raise `BadRecordError` if its head is not valid."""
        start, head_end, _ = self._bounds(number)
        if head_end - start > LARGEST_HEAD:
            raise BadRecordError(f"record {number + 1} at byte {start}: its head has {head_end - start:,} bytes")
        line = bytes(self._data[start:head_end])
        at = line.find(_JSON_START)
        try:
            envelope = decode_json(line[at + 2 :].decode("utf-8", "replace"))
            key = next(iter(envelope))
        except (ValueError, RecursionError, StopIteration, TypeError) as error:
            raise BadRecordError(f"record {number + 1} at byte {start}: its head is not valid JSON") from error
        meta = envelope[key]
        return Record(number, self.kind(number), meta, envelope, clean(join_compile_id(envelope)))

    def payload(self, number: int, checksum: str = "") -> str:
        """Return a payload with its text cleaned. Raise `BadRecordError` if its MD5 is not the `checksum`."""
        _, head_end, end = self._bounds(number)
        if end - head_end > LARGEST_PAYLOAD:
            raise BadRecordError(f"record {number + 1}: its payload has {end - head_end:,} bytes")
        raw = bytes(self._data[head_end + 2 : end]).replace(b"\n\t", b"\n")
        if checksum and hashlib.md5(raw, usedforsecurity=False).hexdigest() != checksum:
            raise BadRecordError(f"record {number + 1} at byte {self.starts[number]}: wrong checksum of its payload")
        return _decoded(raw)

    def payload_end(self, number: int, most: int) -> bytes:
        """Return the last bytes of a payload."""
        _, head_end, end = self._bounds(number)
        return bytes(self._data[max(head_end, end - most) : end])

    def seconds(self, number: int, year: int) -> float:
        """Return the local time of a record as a timestamp, without its time zone. Records have no year."""
        return self._seconds_at(self.starts[number], year)

    def last_seconds(self, year: int) -> float:
        """Return the time of the last record of the buffer, indexed or not; 0 if it is far from the end."""
        tail = max(0, len(self._data) - _TAIL_BYTES)
        matches = list(_ANY_HEAD.finditer(self._data, tail))
        return self._seconds_at(matches[-1].start() + 1, year) if matches else 0.0

    def _seconds_at(self, start: int, year: int) -> float:
        head = bytes(self._data[start + 1 : start + 40])
        month, day, clock = int(head[:2]), int(head[2:4]), head[5:].split(b" ", 1)[0].decode()
        try:
            text = f"{year}-{month:02}-{day:02}T{clock[:15]}"
            return datetime.fromisoformat(text + "+00:00").timestamp()
        except ValueError:
            return 0.0

    def is_cut(self) -> bool:
        """Return whether the last record ends in its middle."""
        if self.size and self._data[self.size - 1 : self.size] != b"\n":
            return True
        if not self.starts:
            return False
        number = len(self.starts) - 1
        try:
            record = self.record(number)
            self.payload(number, record.checksum)
        except BadRecordError:
            return True
        return False

    def foreign_start(self) -> bool:
        """Return whether the buffer begins with something other than a record."""
        return _ANY_HEAD.match(b"\n" + bytes(self._data[:64])) is None
