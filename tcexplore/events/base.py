"""Base class of events, a frozen record of one run and one rank; locations, compile ids, and the cleaning of text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

PROTOCOL = 2
"""Version of the wire format. The front end rejects a worker of another version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A fact that a run reports."""

    types: ClassVar[dict[str, type[Event]]] = {}
    """Every event class by its name."""

    run: int = 0
    """Number that the front end gave to the run; 0 before any run."""
    rank: int = 0
    """Rank of the process in a distributed run; 0 for a single process."""

    def __init_subclass__(cls) -> None:
        # `dataclass(slots=True)` creates a second class of the same name, which replaces the first.
        Event.types[cls.__name__] = cls


@dataclass(frozen=True, slots=True)
class Location:
    """A line of a file."""

    file: str
    """Absolute path."""
    line: int
    """Counted from 1."""
    function: str = ""
    """Empty if unknown."""


def join_compile_id(fields: Mapping[str, Any]) -> str:
    """Return torch's notation for the id in the head of a record: `0/0`, or `!0/4/0` for a graph of compiled autograd.

    It is empty outside a compile.
    """
    frame, compile_ = fields.get("frame_id"), fields.get("frame_compile_id")
    if frame is None or compile_ is None:
        return ""
    backward = fields.get("compiled_autograd_id")
    return f"{frame}/{compile_}" if backward is None else f"!{backward}/{frame}/{compile_}"


def frame_number(compile_id: str) -> str:
    """Return the number of the frame, which is unique across captures of compiled autograd (`torch/_guards.py`)."""
    return compile_id.rpartition("/")[0].rpartition("/")[2]


def backward_number(compile_id: str) -> str:
    """Return the number of the compiled autograd capture; empty for any other compile."""
    return compile_id[1:].partition("/")[0] if compile_id.startswith("!") else ""


_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def _visible(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return "\ufffd"


def clean(text: str) -> str:
    """Make control characters visible: C0 (except tab and newline), DEL, C1, bidi overrides, lone surrogates.

    Drop a carriage return that ends a line; others become `␍`. The result cannot move the cursor or change colors.
    Every other character maps to one character.
    """
    if text.isprintable():  # no control character, and faster than a search
        return text
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    return _UNSAFE.sub(_visible, text) if _UNSAFE.search(text) else text
