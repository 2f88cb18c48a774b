"""Encoding and decoding of events."""

from __future__ import annotations

import json
import types
from dataclasses import MISSING, fields
from enum import StrEnum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcexplore import events as ev
from tcexplore.events import clean, decode, decode_job
from tcexplore.events.codec import HEADER, ProtocolError, encode


def body(record: Any) -> bytes:
    frame = encode(record)
    assert HEADER.unpack(frame[: HEADER.size]) == (len(frame) - HEADER.size,)
    return frame[HEADER.size :]


def example(hint: Any) -> Any:
    """Return a value of a field's type that differs from every default."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in (str, int, float, bool):
        return {str: "x[y] é", int: 7, float: 0.25, bool: True}[hint]
    if origin is Literal:
        return args[-1]
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return list(hint)[-1]
    if origin in (Union, types.UnionType):
        return example(next(a for a in args if a is not type(None)))
    if origin is tuple:
        return (example(args[0]),) * 2 if args[1:] == (Ellipsis,) else tuple(map(example, args))
    return filled(hint)


def filled(record: type) -> Any:
    hints = get_type_hints(record)
    return record(**{f.name: example(hints[f.name]) for f in fields(record)})


@pytest.mark.parametrize("record", ev.event_types().values(), ids=ev.event_types())
def test_every_event_is_unchanged_after_encoding_and_decoding(record: type) -> None:
    event = filled(record)
    assert decode(body(event)) == event


@pytest.mark.parametrize("record", ev.event_types().values(), ids=ev.event_types())
def test_a_missing_field_gets_its_default_or_raises(record: type) -> None:
    data = json.loads(body(filled(record)))
    for f in fields(record):
        less = {k: v for k, v in data.items() if k != f.name}
        if f.default is MISSING and f.default_factory is MISSING:
            with pytest.raises(ProtocolError, match=f.name):
                decode(json.dumps(less).encode())
        else:
            assert getattr(decode(json.dumps(less).encode()), f.name) == f.default


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b"\xff", b'{"$": "Job"}', b'{"$": "Output", "stream": 1, "text": ""}',
     b'{"$": "Output", "stream": "a", "text": null}', b'{"$": "ModulesImported", "files": "abc"}',
     b'{"$": "Finished", "run": true}', b'{"$": "PairsMeasured", "eager_us": ["a"], "compiled_us": []}'],
)  # fmt: skip
def test_an_invalid_event_is_rejected(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(data)


def test_decoding_cleans_text_except_in_a_job() -> None:
    untrusted = "\x1b]52;c;x\x07 a[i] [/b] \x9b1m \u202e \ud800 \r\n\t."
    event = decode(body(ev.Output(stream="stdout", text=untrusted)))
    assert isinstance(event, ev.Output)
    assert event.text == "␛]52;c;x␇ a[i] [/b] \ufffd1m \ufffd \ufffd \n\t."
    assert decode_job(body(ev.Job(run=1, file="m.py", source="\x0cclass A: ...\r\n"))).source == "\x0cclass A: ...\r\n"


@given(st.text())
def test_clean_text_has_no_control_characters(text: str) -> None:
    out = clean(text)
    assert not any((ord(c) < 32 and c not in "\t\n") or 0x7F <= ord(c) < 0xA0 for c in out)
    assert clean(out) == out
    assert len(out) == len(text.replace("\r\n", "\n"))


def test_a_message_has_each_location_once() -> None:
    place = ev.Location("/m.py", 3, "forward")
    nodes = tuple(ev.FxNode(name=f"n{i}", op="call_function", target="t", location=place, stack=(place,) * 3)
                  for i in range(50))  # fmt: skip
    event = ev.GraphCaptured(graph="0/0", ops=50, nodes=nodes, code="")
    assert body(event).count(b"/m.py") == 1
    assert decode(body(event)) == event


@pytest.mark.parametrize("number", [-1, 1, True, 1.5, "0"])
def test_a_location_that_is_not_in_the_table_is_rejected(number: object) -> None:
    data = json.loads(body(ev.GraphCaptured(graph="0/0", ops=0, nodes=(), code="", frame=ev.Location("/m.py", 3))))
    with pytest.raises(ProtocolError):
        decode(json.dumps({**data, "frame": number}).encode())


def test_defaults_are_not_written() -> None:
    assert set(json.loads(body(ev.Finished(run=3)))) == {"$", "run"}


def test_a_huge_text_is_cut() -> None:
    event = decode(body(ev.Output(run=1, stream="stdout", text="x" * 50_000_000)))
    assert isinstance(event, ev.Output)
    assert len(event.text) < 9_000_000
    assert event.text.endswith("characters cut]")
