"""The text of a report: the same whether one process writes it or two."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tcexplore.report import json_text
from tcexplore.report.json_text import LongList, json_lines, write_report

OBJECTS = [{"n": n, "text": f"é {n}"} for n in range(5)]


def pieces(objects: Iterator[Any]) -> list[tuple[str, Any]]:
    return [("first", 1), ("long", objects), ("empty", iter(())), ("none", []), ("last", [{"a": None}])]


def text_of(objects: Iterator[Any], *, count: int) -> str:
    stream = io.StringIO()
    write_report(pieces(objects), stream, LongList("long", objects, count))
    return stream.getvalue()


def test_lists_may_be_iterators():
    text = "".join(json_lines(pieces(iter(OBJECTS))))
    assert json.loads(text) == {"first": 1, "long": OBJECTS, "empty": [], "none": [], "last": [{"a": None}]}
    assert list(json.loads(text)) == ["first", "long", "empty", "none", "last"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_two_processes_write_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_text, "_may_fork", lambda: True)
    process = os.getpid()

    def named() -> Iterator[Any]:
        yield from OBJECTS
        yield {"forked": os.getpid() != process}

    one, two = text_of(named(), count=1), text_of(named(), count=json_text.LEAST_OBJECTS)
    assert json.loads(one)["long"].pop() == {"forked": False}
    assert json.loads(two)["long"].pop() == {"forked": True}
    assert two == one.replace("false", "true")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_what_a_forked_process_fails_to_write_is_written_here(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_text, "_may_fork", lambda: True)
    process = os.getpid()

    def failing() -> Iterator[Any]:
        for each in OBJECTS:
            if os.getpid() != process:
                os._exit(3)
            yield each

    assert json.loads(text_of(failing(), count=json_text.LEAST_OBJECTS))["long"] == OBJECTS
