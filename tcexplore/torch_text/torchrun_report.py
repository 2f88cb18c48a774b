"""What torchrun and torch write to stderr about ranks that fail."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from tcexplore.events import Location, clean

_EXIT_CODE = re.compile(r"^ *exitcode +: (-?\d{1,5}) \(pid: (\d{1,10})\)", re.M)
_RANK_LINE = re.compile(r"^\[rank(\d{1,5})\]:(?: (.*))?$", re.M)
"""torch begins each line of an uncaught exception with the rank."""
_FRAME = re.compile(r'^  File "(.+?)", line (\d{1,9}), in (.+)$')
_TRACEBACK = "Traceback (most recent call last):"


@dataclass(slots=True)
class RankError:
    """An exception that ended a rank."""

    message: str = ""
    """`RuntimeError: …`, its first line."""
    frames: list[Location] = field(default_factory=list)
    """Outermost first."""


def exit_codes(text: str) -> dict[int, int]:
    """Return the exit code, negative for a signal, by process id, of the ranks that torchrun reports as failed."""
    return {int(pid): int(code) for code, pid in _EXIT_CODE.findall(text)}


def rank_errors(text: str) -> dict[int, RankError]:
    """Return the last exception of each rank."""
    errors: dict[int, RankError] = defaultdict(RankError)
    for number, line in _RANK_LINE.findall(text):
        rank = int(number)
        if line == _TRACEBACK:
            errors[rank] = RankError()
        elif frame := _FRAME.match(line):
            errors[rank].frames.append(Location(clean(frame[1]), int(frame[2]), clean(frame[3])))
        elif rank in errors and line and not line.startswith(" ") and not errors[rank].message:
            errors[rank].message = clean(line)
    return dict(errors)
