"""The events of a Chrome trace of torch.profiler as columns, read in one pass.

A profile may have a gigabyte: `json.load` of it takes six times its size in memory. Kineto writes the keys of an event
in one order, so a regular expression reads a block of its events at once. A block that does not match, from another
writer, is read as JSON.
"""

from __future__ import annotations

import json
import re
import sys
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from mmap import PAGESIZE, mmap
from typing import Any, Literal, NamedTuple, TypeGuard, get_args

from tcexplore.events import clean

if sys.platform == "linux":
    from mmap import MADV_DONTNEED

BLOCK = 1 << 23
"""Bytes that are read at a time."""

HEADER = 1 << 20
"""Bytes in which the events must begin."""

LARGEST_EVENT = 1 << 24
"""Bytes of the largest event that is read."""

Kind = Literal["op", "task", "launch", "annotation", "python", "overhead"]
"""`op`: an op on the host. `task`: a kernel, copy or fill of a device. `launch`: a call of the device's driver.
`python`: a Python function. `overhead`: work of the profiler."""

KINDS: tuple[Kind, ...] = get_args(Kind)

KIND_OF: dict[bytes, Kind] = {
    b"cpu_op": "op", b"kernel": "task", b"gpu_memcpy": "task", b"gpu_memset": "task", b"cuda_runtime": "launch",
    b"cuda_driver": "launch", b"user_annotation": "annotation", b"python_function": "python", b"overhead": "overhead",
}  # fmt: skip
GRAPH_CALL = "## Call CompiledFxGraph"
"""Begin of the name of the op that is a call of a graph. With `record_shapes=True` the profiler writes it as an
annotation."""

_DEVICE = frozenset({b"kernel", b"gpu_memcpy", b"gpu_memset"})

_EVENT = re.compile(
    rb'"ph": "X", ("cat": "\w+", "name": "[^"]*", "pid": [^\n]+?),\s+"ts": ([\d.]+), "dur": ([\d.]+)'
    rb'(?:,\s*"args": \{\s*(?:"External id": (\d+))?([^}]*))?'
)
_SOURCE = re.compile(rb'"cat": "(\w+)", "name": "((?:[^"\\]|\\.)*)", "pid": (.+), "tid": (.+)$')
_KNOWN = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|kernel|gpu_memcpy|gpu_memset|cuda_runtime|cuda_driver|user_annotation|python_function'
    rb'|overhead)"'
)
_CORRELATION = re.compile(rb'"correlation": (\d+)')
_SEQUENCE = re.compile(rb'"Sequence number": (\d+), "Fwd thread id": (\d+)')
_START = re.compile(rb'"traceEvents"\s*:\s*\[')

_Row = tuple[bytes, bytes, bytes, bytes]
"""Start, duration, External id and other arguments of an event."""


class NoProfileError(Exception):
    """A file is not a Chrome trace; the message says why."""


class Interval(NamedTuple):
    """One event. Times are in microseconds since the first one of the profile."""

    name: str
    start: float
    end: float
    thread: int
    """Number of the host's thread, or of the device's stream, in `ProfileTable.threads`."""
    id: int
    """External id, 0 for none."""

    @property
    def us(self) -> float:
        return self.end - self.start


class Thread(NamedTuple):
    """A thread of the host, or a stream of a device."""

    pid: str
    tid: str
    device: bool


@dataclass(slots=True)
class Events:
    """The events of one kind as columns."""

    names: array[int] = field(default_factory=lambda: array("i"))
    threads: array[int] = field(default_factory=lambda: array("i"))
    starts: array[float] = field(default_factory=lambda: array("d"))
    lengths: array[float] = field(default_factory=lambda: array("d"))
    ids: array[int] = field(default_factory=lambda: array("q"))
    """External ids, 0 for none."""
    correlations: array[int] = field(default_factory=lambda: array("q"))
    """Which launch made which task, 0 for none; empty for other kinds."""
    sequences: array[int] = field(default_factory=lambda: array("q"))
    """Of ops: 1 + the sequence number of autograd, negative in a backward; 0 for none."""

    def __len__(self) -> int:
        return len(self.names)


class Distributed(NamedTuple):
    """The rank that wrote a profile."""

    rank: int
    world: int


@dataclass(slots=True)
class ProfileTable:
    """A profile as columns."""

    name: str
    size: int = 0
    """Bytes of the file."""
    device: str = ""
    """Name of the device; empty for a profile of a CPU only."""
    distributed: Distributed | None = None
    names: list[str] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)
    events: dict[Kind, Events] = field(default_factory=lambda: {kind: Events() for kind in KINDS})
    skipped: int = 0
    """Events that could not be read."""
    first: float = 0.0
    """Timestamp of the first event, in microseconds; starts are relative to it."""

    def interval(self, kind: Kind, index: int) -> Interval:
        """Return one event."""
        events = self.events[kind]
        start = events.starts[index] - self.first
        thread, name = events.threads[index], self.names[events.names[index]]
        return Interval(name, start, start + events.lengths[index], thread, events.ids[index])


class _Reader:
    """Fills a table. The events of a block are sorted by category, name and thread, so that columns grow at once."""

    def __init__(self, table: ProfileTable) -> None:
        self.table = table
        self._names: dict[str, int] = {}
        self._threads: dict[Thread, int] = {}
        self._sources: dict[bytes, tuple[Events | None, Kind, int, int]] = {}

    def add(self, rows: list[tuple[bytes, bytes, bytes, bytes, bytes]]) -> None:
        """Add the events of a block."""
        by_source: dict[bytes, list[_Row]] = defaultdict(list)
        for source, *event in rows:
            by_source[source].append(event)  # type: ignore[arg-type]
        for source, own in by_source.items():
            known = self._sources.get(source)
            if known is None:
                known = self._sources[source] = self._source(source)
            events, kind, name, thread = known
            if events is not None:
                self._extend(events, kind, name, thread, own)

    def _source(self, text: bytes) -> tuple[Events | None, Kind, int, int]:
        """Return where the events of a category, name and thread belong; None for those that are not read."""
        match = _SOURCE.match(text)
        kind = KIND_OF.get(match[1]) if match else None
        if match is None or kind is None:
            return None, "overhead", 0, 0
        if kind == "annotation" and match[2].startswith(GRAPH_CALL.encode()):
            kind = "op"
        pid, tid = (clean(_text(part.strip(b'"'))) for part in match.group(3, 4))
        thread, name = Thread(pid, tid, match[1] in _DEVICE), clean(_text(match[2]))
        for known, listed, item in ((self._names, self.table.names, name), (self._threads, self.table.threads, thread)):
            if item not in known:
                known[item] = len(listed)  # type: ignore[index]
                listed.append(item)  # type: ignore[arg-type]
        return self.table.events[kind], kind, self._names[name], self._threads[thread]

    @staticmethod
    def _extend(events: Events, kind: Kind, name: int, thread: int, rows: list[_Row]) -> None:
        starts, lengths, ids, arguments = zip(*rows, strict=True)
        events.names.extend(array("i", [name]) * len(rows))
        events.threads.extend(array("i", [thread]) * len(rows))
        events.starts.extend(map(float, starts))
        events.lengths.extend(map(float, lengths))
        events.ids.extend(int(known or 0) for known in ids)
        if kind == "op":
            events.sequences.extend(
                (1 + int(number)) * (1 if forward == b"0" else -1) if number else 0
                for number, forward in _found(_SEQUENCE, arguments, (b"", b""))
            )
        elif kind in ("task", "launch"):
            events.correlations.extend(int(number or 0) for number in _found(_CORRELATION, arguments, b""))


def _found(pattern: re.Pattern[bytes], texts: Sequence[bytes], none: Any) -> list[Any]:
    """Return what a pattern finds in each text, `none` where it finds nothing."""
    found = pattern.findall(b"\n".join(texts))
    if len(found) == len(texts):
        return found
    if not found:
        return [none] * len(texts)
    return [next(iter(pattern.findall(text)), none) for text in texts]


def _text(name: bytes) -> str:
    if b"\\" in name:
        try:
            return str(json.loads(b'"' + name + b'"', strict=False))
        except ValueError:
            pass
    return name.decode("utf-8", "replace")


def is_profile(data: mmap | bytes) -> bool:
    """Return whether content is a Chrome trace."""
    head = bytes(data[: 1 << 16])
    start = head.lstrip()[:1]
    return (start == b"{" and (b'"traceEvents"' in head or b"deviceProperties" in head)) or (
        start == b"[" and b'"ph"' in head
    )


def read_profile(name: str, data: mmap | bytes, progress: Callable[[float], None] | None = None) -> ProfileTable:
    """Return the events of a profile; `progress` gets the share that is read. Raise `NoProfileError`."""
    table = ProfileTable(name, len(data))
    if not is_profile(data):
        raise NoProfileError(f"{name} is not a Chrome trace of torch.profiler")
    _read_header(table, data)
    reader, at = _Reader(table), 0
    for block in profile_blocks(data):
        rows = _EVENT.findall(block)
        if len(rows) < len(_KNOWN.findall(block)):
            rows = _general_rows(table, block)
        reader.add(rows)
        at += len(block)
        if progress is not None:
            progress(at / len(data))
    starts = [min(events.starts) for events in table.events.values() if len(events)]
    if not starts:
        raise NoProfileError(f"{name} holds no events of ops or kernels")
    table.first = min(starts)
    return table


def profile_blocks(data: mmap | bytes) -> Iterator[bytes]:
    """Yield the events of a profile in blocks that cut none."""
    start = _START.search(bytes(data[:HEADER]))
    at = start.end() if start is not None else 0
    while at < len(data):
        end = _block_end(data, at)
        yield bytes(data[at:end])
        if isinstance(data, mmap):
            _release(data, at, end)
        at = end


def profile_header(data: mmap | bytes) -> dict[str, Any]:
    """Return what a profile tells before its events."""
    head = bytes(data[:HEADER])
    start = _START.search(head)
    if start is None:
        return {}
    try:
        facts = json.loads(head[: start.start()].rstrip().rstrip(b",") + b"}")
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _release(data: mmap, at: int, end: int) -> None:
    """Tell the system that a part of the file is not needed any more: it counts as memory of this process."""
    first = -(-at // PAGESIZE) * PAGESIZE
    if sys.platform == "linux" and end > first:
        data.madvise(MADV_DONTNEED, first, end - first)


def _block_end(data: mmap | bytes, at: int) -> int:
    """Return the end of a block: the end of the last event that begins in it."""
    if at + BLOCK >= len(data):
        return len(data)
    end = data.rfind(b'"ph"', at, at + BLOCK)
    brace = data.rfind(b"{", at, end) if end > at else -1
    if brace > at:
        return brace
    following = data.find(b'"ph"', at + BLOCK, at + LARGEST_EVENT)
    brace = data.rfind(b"{", at + 1, following) if following > 0 else -1
    return brace if brace > at else len(data)


def read_rank(head: bytes) -> int | None:
    """Return the rank in the beginning of a profile."""
    table = ProfileTable("")
    _read_header(table, head)
    return table.distributed.rank if table.distributed else None


def _read_header(table: ProfileTable, data: mmap | bytes) -> None:
    """Read the device and the rank."""
    facts = profile_header(data)
    devices = facts.get("deviceProperties")
    if isinstance(devices, list) and devices and isinstance(devices[0], dict):
        table.device = clean(str(devices[0].get("name") or ""))
    known = facts.get("distributedInfo")
    if isinstance(known, dict) and isinstance(rank := known.get("rank"), int):
        world = known.get("world_size")
        table.distributed = Distributed(rank, world if isinstance(world, int) else 1)


def _general_rows(table: ProfileTable, block: bytes) -> list[tuple[bytes, bytes, bytes, bytes, bytes]]:
    """Return the rows of a block of any form."""
    rows: list[tuple[bytes, bytes, bytes, bytes, bytes]] = []
    for event in json_events(table, block):
        category = str(event.get("cat") or "")
        start, length = event.get("ts"), event.get("dur")
        if event.get("ph") != "X" or category.encode() not in KIND_OF or not _number(start) or not _number(length):
            continue
        arguments = event.get("args")
        arguments = arguments if isinstance(arguments, dict) else {}
        external, sequence = arguments.get("External id"), arguments.get("Sequence number")
        text = ""
        if isinstance(correlation := arguments.get("correlation"), int):
            text = f'"correlation": {correlation}'
        elif isinstance(sequence, int):
            text = f'"Sequence number": {sequence}, "Fwd thread id": {int(bool(arguments.get("Fwd thread id")))}'
        pid, tid = json.dumps(event.get("pid")), json.dumps(event.get("tid"))
        source = f'"cat": "{category}", "name": {json.dumps(str(event.get("name")))}, "pid": {pid}, "tid": {tid}'
        number = str(external) if isinstance(external, int) else ""
        rows.append(
            (source.encode(), repr(float(start)).encode(), repr(float(length)).encode(), number.encode(), text.encode())
        )
    return rows


def _number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def json_events(table: ProfileTable, block: bytes) -> Iterator[dict[str, Any]]:
    """Yield the events of a block; count those that are damaged."""
    text = block.decode("utf-8", "replace")
    decode = json.JSONDecoder(strict=False).raw_decode
    at = text.find("{")
    while at >= 0:
        try:
            event, end = decode(text, at)
        except ValueError:
            table.skipped += 1
            event, end = None, at + 1
        except RecursionError:
            return
        if isinstance(event, dict):
            yield event
        at = text.find("{", end)
