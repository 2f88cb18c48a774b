"""Base class of events, a frozen record of one run and one rank, with locations and compile ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

PROTOCOL = 1
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


def frame_number(compile_id: str) -> str:
    """Return the number of the frame, which is unique across captures of compiled autograd (`torch/_guards.py`)."""
    return compile_id.rpartition("/")[0].rpartition("/")[2]


def backward_number(compile_id: str) -> str:
    """Return the number of the compiled autograd capture; empty for any other compile."""
    return compile_id[1:].partition("/")[0] if compile_id.startswith("!") else ""
