"""Text with escape sequences, put into every text of a run."""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from tcexplore.events import Event, decode
from tcexplore.events.codec import HEADER, encode
from tcexplore.session import Snapshot

PARTS = (
    "\x1b[2J", "\x1b]0;title\x07", "\x1b]52;c;QUJD\x1b\\", "\x1bP0;1|17/ab\x1b\\", "\x1bc", "\x1b[?1049h", "\x9b31m",
    "\x9d0;t\x9c", "\x07", "\x08", "\x0b", "\x0c", "\r", "\r\n", "\n", "\t", "\x7f", "\x85", "\u202e", "\u2066",
    "\u200f", "\ufeff", "\ud800", "\x1b", "[", "]", "[/b]", "[red]", "m", "a", "é", "漢", "\u0301", "\U0001f600", "",
)  # fmt: skip

hostile_texts = st.lists(st.sampled_from(PARTS), min_size=1, max_size=8).map("".join)

NAMES = frozenset(
    {"graph", "id", "phase", "target", "entry", "failed_entry", "kernel", "device", "dtype", "number", "hint"}
)
"""Fields that other records refer to; their texts are torch's."""


def infected(run: Snapshot, text: str) -> Snapshot:
    """Return the run with `text` appended to every text of its events, as they arrive through the protocol."""
    changes = {name: _infected_events(getattr(run, name), text) for name in (field.name for field in fields(run))}
    return replace(run, **{**changes, "file": f"/tmp/{text}.py", "source": f"# {text}\n{run.source}"})


def _infected_events(value: Any, text: str) -> Any:
    if isinstance(value, Event):
        return decode(encode(_infected(value, text))[HEADER.size :])
    if isinstance(value, tuple):
        return tuple(_infected_events(item, text) for item in value)
    if is_dataclass(value) and type(value).__name__ == "Code":
        members = {field.name: _infected_events(getattr(value, field.name), text) for field in fields(value)}
        return replace(value, **members)  # type: ignore[type-var]
    return value


@cache
def _text_fields(record: type) -> tuple[str, ...]:
    hints = get_type_hints(record)
    return tuple(field.name for field in fields(record) if field.name not in NAMES and _holds_text(hints[field.name]))


def _holds_text(hint: Any) -> bool:
    if get_origin(hint) in (Union, types.UnionType, tuple):
        return any(map(_holds_text, get_args(hint)))
    return hint is str or (isinstance(hint, type) and is_dataclass(hint))


def _infected(value: Any, text: str) -> Any:
    if isinstance(value, str):
        return value + text
    if isinstance(value, tuple):
        return tuple(_infected(item, text) for item in value)
    if is_dataclass(value):
        members = {name: _infected(getattr(value, name), text) for name in _text_fields(type(value))}  # type: ignore[arg-type]
        return replace(value, **members)  # type: ignore[type-var]
    return value
