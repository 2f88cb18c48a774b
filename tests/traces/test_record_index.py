"""Records of trace files: heads, payloads, growing and damaged files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tcexplore.traces.record_index import BadRecordError, RecordIndex


def written(kind: str, payload: str | None = None, pid: int = 7, **envelope: object) -> bytes:
    """Return a record as torch writes it."""
    import json

    head: dict[str, object] = {kind: {}, **envelope}
    if payload is not None:
        head["has_payload"] = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
    lines = "" if payload is None else "".join(f"\n\t{line}" for line in payload.split("\n"))
    return f"V1121 20:52:25.643000 {pid} torch/x.py:1] {json.dumps(head)}{lines}\n".encode()


def indexed(data: bytes) -> RecordIndex:
    index = RecordIndex(data)
    index.finish()
    return index


def test_a_payload_is_read_back_as_it_was_written():
    payload = 'class A:\n\tindented\n\nV1121 20:52:25.643000 7 x] {"not": 1}'
    index = indexed(written("one", payload) + written("two", frame_id=3, frame_compile_id=1, attempt=2))
    first, second = index.record(0), index.record(1)
    assert index.payload(0, first.checksum) == payload
    assert (second.kind, second.graph, second.attempt) == ("two", "3/1", 2)
    assert index.counts() == {"one": 1, "two": 1}


def test_small_steps_find_the_same_records_as_one_pass(traces: Path):
    data = next((traces / "same").iterdir()).read_bytes()
    whole, stepwise = indexed(data), RecordIndex(data)
    while not stepwise.extend(997):
        pass
    assert list(stepwise.starts) == list(whole.starts)
    assert stepwise.counts() == whole.counts()


def test_every_payload_of_a_real_trace_has_the_right_checksum(traces: Path):
    for path in (traces / "same").iterdir():
        index = indexed(path.read_bytes())
        assert len(index) > 300
        for number in range(len(index)):
            index.payload(number, index.record(number).checksum)


def test_a_growing_file_continues_where_it_was():
    data = written("one", "first") + written("two", "a\nb\nc") + written("three", "x")
    index = RecordIndex(data[:0])
    for end in range(0, len(data) + 1, 7):
        index.grow(data[:end])
        index.finish()
    index.grow(data)
    index.finish()
    assert list(index.starts) == list(indexed(data).starts)
    assert [index.payload(n, index.record(n).checksum) for n in range(3)] == ["first", "a\nb\nc", "x"]


@pytest.mark.parametrize("cut", [1, 3, 60])
def test_a_record_that_ends_in_its_middle_is_noticed(cut: int):
    data = written("one", "first") + written("two", "line\nline")
    assert indexed(data[:-cut]).is_cut()
    assert not indexed(data).is_cut()


def test_a_wrong_checksum_is_reported_with_its_place():
    index = indexed(written("one", "first").replace(b"first", b"wrong"))
    with pytest.raises(BadRecordError, match="record 1 at byte 0: wrong checksum"):
        index.payload(0, index.record(0).checksum)


def test_a_head_that_is_not_json_is_reported():
    index = indexed(b'V1121 20:52:25.643000 7 torch/x.py:1] {"one": {]\n')
    with pytest.raises(BadRecordError, match="not valid JSON"):
        index.record(0)


def test_processes_that_share_a_file_are_told_apart():
    index = indexed(written("one", pid=1) + written("two", pid=2) + written("three", pid=1))
    assert index.pids == {0: 1, 1: 2, 2: 1}


def test_control_characters_of_a_payload_are_made_visible():
    index = indexed(written("one", "a\x1b[31mb"))
    assert index.payload(0) == "a␛[31mb"
