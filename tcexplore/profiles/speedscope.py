"""A profile's host threads as stacks for https://www.speedscope.app: Python functions and ops, with lines."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from tcexplore.profiles.chrome_trace import Writer
from tcexplore.profiles.profile_join import JoinedProfile
from tcexplore.profiles.profile_table import Kind

SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"

_STACKED: tuple[Kind, ...] = ("python", "annotation", "op", "launch")
"""Kinds of events on the host that nest; of equal intervals, the earlier kind is outside."""

_FUNCTION = re.compile(r"^(.+)\((\d+)\): (.+)$")

Call = tuple[float, float, int, int]
"""Start, negative end, kind and frame of a call; they sort outer calls first."""


def write_speedscope(joined: JoinedProfile, file: Writer) -> int:
    """Write the stacks of each host thread; return the number of frames with a line."""
    frames = _Frames(joined)
    threads = _calls(joined, frames)
    file.write(b'{"$schema":"' + SCHEMA.encode() + b'",\n"exporter":"tcexplore","profiles":[\n')
    for position, (thread, calls) in enumerate(sorted(threads.items())):
        calls.sort()
        known = joined.table.threads[thread]
        head = {
            "type": "evented", "name": f"thread {known.tid} of process {known.pid}", "unit": "microseconds",
            "startValue": calls[0][0], "endValue": max(-end for _, end, _, _ in calls),
        }  # fmt: skip
        file.write((b",\n" if position else b"") + json.dumps(head).encode()[:-1] + b',"events":[\n')
        for number, (kind, frame, at) in enumerate(stack_events(calls)):
            text = f'{{"type":"{kind}","frame":{frame},"at":{at:.3f}}}'
            file.write((b",\n" if number else b"") + text.encode())
        file.write(b"\n]}")
    file.write(b'\n],\n"shared":' + json.dumps({"frames": frames.listed}).encode() + b"}\n")
    return sum("line" in frame for frame in frames.listed)


def stack_events(calls: list[Call]) -> Iterator[tuple[str, int, float]]:
    """Yield when frames open and close, in order; a call that outlives the one around it ends with that."""
    opened: list[tuple[float, int]] = []
    for start, negative_end, _, frame in calls:
        while opened and opened[-1][0] <= start:
            end, closed = opened.pop()
            yield "C", closed, end
        end = min(-negative_end, opened[-1][0]) if opened else -negative_end
        opened.append((end, frame))
        yield "O", frame, start
    while opened:
        end, closed = opened.pop()
        yield "C", closed, end


def _calls(joined: JoinedProfile, frames: _Frames) -> dict[int, list[Call]]:
    threads: dict[int, list[Call]] = defaultdict(list)
    table = joined.table
    for rank, kind in enumerate(_STACKED):
        events = table.events[kind]
        for index in range(len(events)):
            thread = events.threads[index]
            if not table.threads[thread].device:
                start = events.starts[index] - table.first
                frame = frames.number(kind, index)
                threads[thread].append((start, -(start + events.lengths[index]), rank, frame))
    return threads


class _Frames:
    """The frames of a profile; an op has one for each line that it is on."""

    def __init__(self, joined: JoinedProfile) -> None:
        self._joined = joined
        self._numbers: dict[tuple[int, int], int] = {}
        self.listed: list[dict[str, Any]] = []

    def number(self, kind: Kind, index: int) -> int:
        """Return the number of the frame of an event."""
        place = self._joined.op_places[index] if kind == "op" else -1
        name = self._joined.table.events[kind].names[index]
        known = self._numbers.get((name, place))
        if known is None:
            known = self._numbers[name, place] = len(self.listed)
            self.listed.append(self._frame(self._joined.table.names[name], place))
        return known

    def _frame(self, name: str, place: int) -> dict[str, Any]:
        lines = self._joined.places[place].lines if place >= 0 else ()
        if lines:
            line = lines[0]
            return {"name": f"{name}  {os.path.basename(line.file)}:{line.line}", "file": line.file, "line": line.line}
        if match := _FUNCTION.match(name):
            return {"name": match[3], "file": match[1], "line": int(match[2])}
        return {"name": name}
