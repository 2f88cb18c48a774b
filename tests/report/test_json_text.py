"""The text of a report: the same whether one process writes it or several."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tcexplore.report import json_text
from tcexplore.report.json_text import LongList, json_lines, write_report

FORKED = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
NUMBERS = [[1, 2], [], [3], [4, 5, 6], [7]]
"""The objects of each record."""


def numbered(record: Sequence[int]) -> list[Any]:
    return [{"n": n, "text": f"é {n}"} for n in record]


def long_list(objects: Callable[[Any], Any] = numbered, records: Sequence[Any] = NUMBERS) -> LongList:
    return LongList(records, objects, len)


def text_of(lists: dict[str, LongList]) -> str:
    pieces: list[tuple[str, Any]] = [("first", 1), *lists.items(), ("none", []), ("last", [{"a": None}])]
    stream = io.StringIO()
    write_report(pieces, stream, lists)
    return stream.getvalue()


@pytest.fixture
def many_processes(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let three processes write even a small report."""
    monkeypatch.setattr(json_text, "shares", lambda: 3)
    monkeypatch.setattr(json_text, "LEAST_OBJECTS", 0)
    return os.getpid()


def test_long_lists_are_written_in_their_places():
    text = "".join(json_lines([("first", 1), ("long", long_list()), ("empty", long_list(records=())), ("none", [])]))
    assert json.loads(text) == {"first": 1, "long": numbered(range(1, 8)), "empty": [], "none": []}
    assert list(json.loads(text)) == ["first", "long", "empty", "none"]


@FORKED
def test_several_processes_write_the_same(monkeypatch: pytest.MonkeyPatch):
    lists = {"long": long_list(), "empty": long_list(records=()), "other": long_list(records=NUMBERS[:2])}
    alone = text_of(lists)
    monkeypatch.setattr(json_text, "LEAST_OBJECTS", 0)
    for count in (2, 3, 20):
        monkeypatch.setattr(json_text, "shares", lambda count=count: count)
        assert text_of(lists) == alone


@FORKED
def test_each_process_writes_a_part(many_processes: int):
    def named(record: Sequence[int]) -> Iterator[Any]:
        yield from ({"n": n, "process": os.getpid()} for n in record)

    objects = json.loads(text_of({"long": long_list(named)}))["long"]
    assert [each["n"] for each in objects] == list(range(1, 8))
    assert len({each["process"] for each in objects} - {many_processes}) == 3


@FORKED
def test_only_what_a_process_fails_to_write_is_written_here(many_processes: int):
    def failing(record: Sequence[int]) -> Iterator[Any]:
        if os.getpid() != many_processes and 5 in record:
            os._exit(3)
        yield from ({"n": n, "here": os.getpid() == many_processes} for n in record)

    objects = json.loads(text_of({"long": long_list(failing)}))["long"]
    assert [each["n"] for each in objects] == list(range(1, 8))
    assert {each["n"] for each in objects if each["here"]} == {4, 5, 6}, "the part of the process that failed"
