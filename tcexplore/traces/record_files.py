"""All records of a job as files: a folder for each rank, and in it one for each attempt to compile."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tcexplore.files import create
from tcexplore.traces.record_index import BadRecordError, Record, RecordIndex
from tcexplore.traces.trace_job import TraceJob, TraceProcess

SPANS = "chromium_events.json"
"""torch's spans, for Perfetto or `chrome://tracing`."""

_PYTHON = frozenset({"inductor_output_code", "fx_graph_runnable"})
_SPAN = "chromium_event"
_NOT_ALONE = frozenset({"str", "describe_tensor", "describe_source", "describe_storage", _SPAN})
"""Kinds that mean something only together with others."""
_UNSAFE = re.compile(r"[^\w.-]+")


class WrittenRecords(NamedTuple):
    """What was written."""

    files: int
    unreadable: int


def write_records(job: TraceJob, folder: str) -> WrittenRecords:
    """Write each record of each rank into a new folder. Raises `NotWrittenError` if a file exists."""
    files = unreadable = 0
    for process in job.ranks:
        root = os.path.join(folder, f"rank_{process.number}")
        for name, content in _contents(process):
            if content is None:
                unreadable += 1
                continue
            create(_made(os.path.join(root, name)), content)
            files += 1
        create(_made(os.path.join(root, SPANS)), "".join(_spans(process.index)))
        files += 1
    return WrittenRecords(files, unreadable)


def _made(path: str) -> str:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def _contents(process: TraceProcess) -> Iterator[tuple[str, str | None]]:
    """Yield name and content of each record; no content if it cannot be decoded."""
    index = process.index
    for number in index.numbers():
        kind = index.kind(number)
        if kind in _NOT_ALONE:
            continue
        try:
            record = index.record(number)
            content = index.payload(number, record.checksum) if record.checksum else _meta(record)
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


def _meta(record: Record) -> str:
    return json.dumps(record.meta, indent=1) + "\n"


def _spans(index: RecordIndex) -> Iterator[str]:
    """Yield torch's spans as one JSON list."""
    separator = "[\n"
    for number in index.numbers(frozenset({_SPAN})):
        try:
            record = index.record(number)
            text = index.payload(number, record.checksum)
            span: Any = json.loads(text)
        except (BadRecordError, ValueError, RecursionError):
            continue
        yield separator + json.dumps(span)
        separator = ",\n"
    yield "\n]\n" if separator != "[\n" else "[]\n"
