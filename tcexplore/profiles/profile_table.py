"""The events of a Chrome trace of torch.profiler as columns, read in one pass.

A profile may have a gigabyte: `json.load` of it takes six times its size in memory. Kineto writes the keys of an event
in one order, so a regular expression reads a block of its events at once. A block that does not match, from another
writer, is read as JSON.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from mmap import mmap
from typing import Any, Literal, NamedTuple, get_args

from tcexplore.events import clean

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

_KIND_OF: dict[bytes, Kind] = {
    b"cpu_op": "op", b"kernel": "task", b"gpu_memcpy": "task", b"gpu_memset": "task", b"cuda_runtime": "launch",
    b"cuda_driver": "launch", b"user_annotation": "annotation", b"python_function": "python", b"overhead": "overhead",
    b"Kernel": "task", b"Operator": "op",
}  # fmt: skip

_EVENT = re.compile(
    rb'"ph": "X", "cat": "(cpu_op|kernel|gpu_memcpy|gpu_memset|cuda_runtime|cuda_driver|user_annotation|python_function'
    rb'|overhead)", "name": "((?:[^"\\]|\\.)*)", "pid": ([^,]+), "tid": ([^,]+),\s*"ts": ([\d.]+), "dur": ([\d.]+)'
    rb'(?:,\s*"args": \{\s*(?:"External id": (\d+)[,\s]*)?([^{}]*))?'
)
_CORRELATION = re.compile(rb'"correlation": (\d+)')
_SEQUENCE = re.compile(rb'"Sequence number": (\d+), "Fwd thread id": (\d+)')
_START = re.compile(rb'"traceEvents"\s*:\s*\[')


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
    """The events of one kind as columns, in the order of the file."""

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
    """Fills a table."""

    def __init__(self, table: ProfileTable) -> None:
        self.table = table
        self._names: dict[bytes, int] = {}
        self._threads: dict[tuple[bytes, bytes, bool], int] = {}

    def name(self, text: bytes) -> int:
        """Return the number of a name."""
        number = self._names.get(text)
        if number is None:
            number = self._names[text] = len(self.table.names)
            self.table.names.append(clean(_text(text)))
        return number

    def thread(self, pid: bytes, tid: bytes, device: bool) -> int:
        """Return the number of a thread or stream."""
        key = (pid, tid, device)
        number = self._threads.get(key)
        if number is None:
            number = self._threads[key] = len(self.table.threads)
            self.table.threads.append(Thread(clean(_text(pid.strip(b'"'))), clean(_text(tid.strip(b'"'))), device))
        return number

    def add(self, rows: list[tuple[bytes, ...]]) -> None:
        """Add the events of a block."""
        name_of, thread_of, names, threads = self.name, self.thread, self._names, self._threads
        events = {category: self.table.events[kind] for category, kind in _KIND_OF.items()}
        for category, name, pid, tid, start, length, external, arguments in rows:
            own = events[category]
            device = category in _DEVICE
            number = names.get(name)
            own.names.append(name_of(name) if number is None else number)
            if category == b"cpu_op":
                found = _SEQUENCE.search(arguments) if b"Seq" in arguments else None
                own.sequences.append(0 if not found else (1 + int(found[1])) * (-1 if found[2] != b"0" else 1))
            elif category in _CORRELATED:
                found = _CORRELATION.search(arguments)
                own.correlations.append(int(found[1]) if found else 0)
            number = threads.get((pid, tid, device))
            own.threads.append(thread_of(pid, tid, device) if number is None else number)
            own.starts.append(float(start))
            own.lengths.append(float(length))
            own.ids.append(int(external) if external else 0)


_DEVICE = frozenset({b"kernel", b"gpu_memcpy", b"gpu_memset"})
_CORRELATED = _DEVICE | {b"cuda_runtime", b"cuda_driver"}


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
    at = _read_header(table, data)
    reader = _Reader(table)
    while at < len(data):
        end = _block_end(data, at)
        rows = _EVENT.findall(data, at, end)
        if len(rows) < _count_known(data, at, end):
            rows = _general_rows(table, bytes(data[at:end]))
        reader.add(rows)
        at = end
        if progress is not None:
            progress(at / len(data))
    starts = [min(events.starts) for events in table.events.values() if len(events)]
    if not starts:
        raise NoProfileError(f"{name} holds no events of ops or kernels")
    table.first = min(starts)
    return table


def _count_known(data: mmap | bytes, at: int, end: int) -> int:
    """Return the number of complete events of known categories in a block of Kineto's form."""
    return len(_KNOWN.findall(data, at, end))


_KNOWN = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|kernel|gpu_memcpy|gpu_memset|cuda_runtime|cuda_driver|user_annotation|python_function'
    rb'|overhead|Kernel|Operator)"'
)


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


def _read_header(table: ProfileTable, data: mmap | bytes) -> int:
    """Read the device and the rank, and return where the events begin."""
    head = bytes(data[:HEADER])
    start = _START.search(head)
    facts: Any = {}
    if start is not None:
        try:
            facts = json.loads(head[: start.start()].rstrip().rstrip(b",") + b"}")
        except ValueError:
            facts = {}
    devices = facts.get("deviceProperties") if isinstance(facts, dict) else None
    if isinstance(devices, list) and devices and isinstance(devices[0], dict):
        table.device = clean(str(devices[0].get("name") or ""))
    known = facts.get("distributedInfo") if isinstance(facts, dict) else None
    if isinstance(known, dict) and isinstance(rank := known.get("rank"), int):
        world = known.get("world_size")
        table.distributed = Distributed(rank, world if isinstance(world, int) else 1)
    return start.end() if start is not None else 0


def _general_rows(table: ProfileTable, block: bytes) -> list[tuple[bytes, ...]]:
    """Return the rows of a block of any form."""
    rows: list[tuple[bytes, ...]] = []
    for event in _json_events(table, block):
        category = str(event.get("cat") or "").encode()
        start, length = event.get("ts"), event.get("dur")
        if event.get("ph") != "X" or category not in _KIND_OF or not _number(start) or not _number(length):
            continue
        arguments = event.get("args")
        arguments = arguments if isinstance(arguments, dict) else {}
        external = arguments.get("External id", arguments.get("external id"))
        text = ""
        if isinstance(arguments.get("correlation"), int):
            text = f'"correlation": {arguments["correlation"]}'
        elif isinstance(arguments.get("Sequence number"), int):
            thread = arguments.get("Fwd thread id")
            text = f'"Sequence number": {arguments["Sequence number"]}, "Fwd thread id": {int(bool(thread))}'
        category = {b"Kernel": b"kernel", b"Operator": b"cpu_op"}.get(category, category)
        rows.append(
            (
                category, json.dumps(str(event.get("name")))[1:-1].encode(), json.dumps(event.get("pid")).encode(),
                json.dumps(event.get("tid")).encode(), repr(float(start)).encode(), repr(float(length)).encode(),
                str(external).encode() if isinstance(external, int) else b"", text.encode(),
            )
        )  # fmt: skip
    return rows


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _json_events(table: ProfileTable, block: bytes) -> Iterator[dict[str, Any]]:
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
