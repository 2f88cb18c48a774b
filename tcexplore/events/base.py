"""What every event is: a frozen record that says which run and which rank it belongs to."""

from __future__ import annotations

from dataclasses import dataclass

PROTOCOL = 1
"""Version of the wire format; a worker and a front end of different versions refuse each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that a run made known.

    `run` is the generation that the front end gave to the run (0 before any run);
    `rank` is the process rank inside a distributed run, 0 when there is one process.
    """

    run: int = 0
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Location:
    """A line of a file: absolute path, 1-based line, and the function's name where known."""

    file: str
    line: int
    function: str = ""
