"""All records of a job as files: a folder for each rank, and in it one for each attempt to compile.

Records do not depend on each other, so forked processes write a part of them each.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import takewhile
from typing import Any, NamedTuple

from tcexplore.files import NotWrittenError, create_one_of_many
from tcexplore.processes import Forked, shares
from tcexplore.traces.record_index import BadRecordError, Record, RecordIndex
from tcexplore.traces.span_records import SPAN
from tcexplore.traces.trace_job import TraceJob, TraceProcess
from tcexplore.traces.trace_sources import read_stack, read_string

SPANS = "chromium_events.json"
"""torch's spans, for Perfetto or `chrome://tracing`."""

STACKS = "compile_stacks.txt"
"""The call stacks that led to the compiles, as a tree."""

_PYTHON = frozenset({"inductor_output_code", "fx_graph_runnable"})
_NOT_ALONE = frozenset({"str", "describe_tensor", "describe_source", "describe_storage", SPAN})
"""Kinds that mean something only together with others."""
_UNSAFE = re.compile(r"[^\w.-]+")


_LEAST_RECORDS = 5_000
"""Records from which on more processes pay off."""

_TOGETHER = 64
"""Neighboring records that one process writes."""


class WrittenRecords(NamedTuple):
    """What was written."""

    files: int
    unreadable: int


def write_records(job: TraceJob, folder: str) -> WrittenRecords:
    """Write each record of each rank into a new folder. Raises `NotWrittenError` if a file exists."""
    records = sum(len(process.index) for process in job.ranks)
    parts = shares() if records >= _LEAST_RECORDS else 1
    others = [_part_written(job, folder, part, parts) for part in range(1, parts)]
    with Forked(others) as forked:
        written = [_write_part(job, folder, 0, parts)]
        for part in forked:
            if isinstance(part, str):
                raise NotWrittenError(part)
            written.append(part)
    if len(written) < parts:
        raise NotWrittenError(f"not all records were written: {forked.failure}")
    files, unreadable = map(sum, zip(*written, strict=True))
    return WrittenRecords(files, unreadable)


def _part_written(job: TraceJob, folder: str, part: int, parts: int) -> Iterator[WrittenRecords | str]:
    """Write a part of the records once its result is asked for; yield what was written, or why it could not be."""
    try:
        yield _write_part(job, folder, part, parts)
    except NotWrittenError as error:
        yield str(error)


def _write_part(job: TraceJob, folder: str, part: int, parts: int) -> WrittenRecords:
    """Write the records whose number is in this part, the last part also the spans."""
    files = unreadable = 0
    for process in job.ranks:
        root = os.path.join(folder, f"rank_{process.number}")
        strings = _strings(process.index)
        for name, content in _contents(process, strings, part, parts):
            if content is None:
                unreadable += 1
                continue
            create_one_of_many(os.path.join(root, name), [content])
            files += 1
        if part == parts - 1:
            create_one_of_many(os.path.join(root, SPANS), _spans(process.index))
            create_one_of_many(os.path.join(root, STACKS), _stacks(process.index, strings))
            files += 2
    return WrittenRecords(files, unreadable)


def _contents(
    process: TraceProcess, strings: Mapping[int, str], part: int, parts: int
) -> Iterator[tuple[str, str | None]]:
    """Yield name and content of each record; no content if it cannot be decoded."""
    index = process.index
    for number in index.numbers():
        kind = index.kind(number)
        if kind in _NOT_ALONE or number // _TOGETHER % parts != part:
            continue
        try:
            record = index.record(number)
            content = index.payload(number, record.checksum) if record.checksum else _meta(record, strings)
        except BadRecordError:
            yield kind, None
            continue
        yield os.path.join(_folder(record), f"{number:06}_{_UNSAFE.sub('_', kind)}{_ending(record)}"), content


def _folder(record: Record) -> str:
    """Return the name of an attempt: `0_1` for compile 0/1, `0_1.attempt_1` for its second attempt."""
    if not record.graph:
        return "outside"
    attempt = f".attempt_{record.attempt}" if record.attempt else ""
    return f"{_UNSAFE.sub('_', record.graph)}{attempt}"


def _ending(record: Record) -> str:
    if record.kind in _PYTHON:
        return ".py"
    encoded = isinstance(record.meta, dict) and record.meta.get("encoding") == "json"
    return ".json" if encoded or not record.checksum else ".txt"


def _meta(record: Record, strings: Mapping[int, str]) -> str:
    """Return what a record without a payload says, with the names of files for their numbers."""
    meta = record.meta
    if isinstance(meta, dict) and isinstance(meta.get("stack"), list):
        meta = {**meta, "stack": [_named(frame, strings) for frame in meta["stack"]]}
    return json.dumps(meta, indent=1) + "\n"


def _named(frame: Any, strings: Mapping[int, str]) -> Any:
    name = frame.get("filename") if isinstance(frame, dict) else None
    return {**frame, "filename": strings.get(name, name)} if isinstance(name, int) else frame


def _strings(index: RecordIndex) -> dict[int, str]:
    """Return the texts that records refer to by number."""
    strings: dict[int, str] = {}
    for number in index.numbers(frozenset({"str"})):
        with suppress(BadRecordError):
            read_string(index.record(number), strings)
    return strings


def _stacks(index: RecordIndex, strings: Mapping[int, str]) -> Iterator[str]:
    """Yield the lines of the tree of stacks: each compile below the frames that led to it, which are shared."""
    last: list[str] = []
    for number in index.numbers(frozenset({"dynamo_start"})):
        with suppress(BadRecordError):
            record = index.record(number)
            meta = record.meta if isinstance(record.meta, dict) else {}
            frames = read_stack(meta.get("stack"), strings)
            stack = [f"{at.file}:{at.line} in {at.function}  {code}".rstrip() for at, code in frames]
            shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(last, stack, strict=False)))
            yield from (f"{'  ' * depth}{line}\n" for depth, line in enumerate(stack) if depth >= shared)
            attempt = f", attempt {record.attempt}" if record.attempt else ""
            yield f"{'  ' * len(stack)}[{record.graph}{attempt}]\n"
            last = stack


def _spans(index: RecordIndex) -> Iterator[str]:
    """Yield torch's spans as one JSON list."""
    separator = "[\n"
    for number in index.numbers(frozenset({SPAN})):
        try:
            record = index.record(number)
            text = index.payload(number, record.checksum)
            span: Any = json.loads(text)
        except (BadRecordError, ValueError, RecursionError):
            continue
        yield separator + json.dumps(span)
        separator = ",\n"
    yield "\n]\n" if separator != "[\n" else "[]\n"
