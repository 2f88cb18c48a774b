"""A profile written back as a Chrome trace: ops and tasks have graph, kernel, ops, module and lines as arguments."""

from __future__ import annotations

import json
import tempfile
from array import array
from collections.abc import Iterator
from mmap import mmap
from typing import Any, Protocol

from tcexplore import events as ev
from tcexplore.profiles.profile_join import JoinedProfile, Place
from tcexplore.profiles.profile_table import KIND_OF, json_events, profile_blocks, profile_header
from tcexplore.profiles.step_timeline import Modules

_PREFIX = "tcexplore "
"""Beginning of each argument that is added."""

_METADATA_FIRST = float("-inf")


class Writer(Protocol):
    """A file that is written."""

    def write(self, data: bytes, /) -> int: ...


def write_chrome_trace(joined: JoinedProfile, data: mmap | bytes, modules: Modules, file: Writer) -> int:
    """Write a joined profile, sorted by time; return the number of events with a line.

    Events of other kinds, flows among them, stay as they are. A flow follows the event of the same time that it binds
    to.
    """
    places = _Places(joined, modules)
    times, kinds, ends = array("d"), array("b"), array("Q")
    with tempfile.TemporaryFile(prefix="tcexplore-") as scratch:
        size = 0
        for event in _all_events(joined, data):
            places.add_arguments(event)
            size += scratch.write(json.dumps(event, separators=(",", ":")).encode())
            start, complete = event.get("ts"), event.get("ph") == "X"
            timed = isinstance(start, int | float) and event.get("ph") != "M"
            times.append(float(start) if timed and start is not None else _METADATA_FIRST)
            kinds.append(0 if complete else 1)
            ends.append(size)
        order = sorted(range(len(times)), key=lambda index: (times[index], kinds[index]))
        header = {key: value for key, value in profile_header(data).items() if key != "traceEvents"}
        file.write(json.dumps(header, indent=1).rstrip("}\n ").encode())
        file.write(b',\n "traceEvents": [\n' if header else b'"traceEvents": [\n')
        for position, index in enumerate(order):
            start = ends[index - 1] if index else 0
            scratch.seek(start)
            file.write((b",\n" if position else b"") + scratch.read(ends[index] - start))
        file.write(b"\n]}\n")
    return places.on_lines


def _all_events(joined: JoinedProfile, data: mmap | bytes) -> Iterator[dict[str, Any]]:
    for block in profile_blocks(data):
        yield from json_events(joined.table, block)


class _Places:
    """The places of a profile's events by kind, time and name."""

    def __init__(self, joined: JoinedProfile, modules: Modules) -> None:
        self._joined = joined
        self._modules = modules
        self._arguments: dict[int, dict[str, Any]] = {}
        self.on_lines = 0
        self._found: dict[tuple[float, float, str], int] = {}
        table = joined.table
        for events, places in ((table.events["op"], joined.op_places), (table.events["task"], joined.task_places)):
            for index, place in enumerate(places):
                if place >= 0:
                    name = table.names[events.names[index]]
                    self._found[events.starts[index], events.lengths[index], name] = place

    def add_arguments(self, event: dict[str, Any]) -> None:
        """Add what is known of an event to its arguments."""
        if event.get("ph") != "X" or str(event.get("cat")).encode() not in KIND_OF:
            return
        start, length = event.get("ts"), event.get("dur")
        if not isinstance(start, int | float) or not isinstance(length, int | float):
            return
        place = self._found.get((float(start), float(length), ev.clean(str(event.get("name")))))
        if place is None:
            return
        arguments = event.get("args")
        own = self._of_place(place)
        event["args"] = {**(arguments if isinstance(arguments, dict) else {}), **own}
        self.on_lines += f"{_PREFIX}line" in own

    def _of_place(self, number: int) -> dict[str, Any]:
        known = self._arguments.get(number)
        if known is None:
            place = self._joined.places[number]
            known = {f"{_PREFIX}{key}": value for key, value in self._facts(place) if value}
            self._arguments[number] = known
        return known

    def _facts(self, place: Place) -> Iterator[tuple[str, Any]]:
        yield "graph", f"{place.graph} {place.phase}".strip()
        if place.call is not None:
            yield "kernel", place.name
            yield "ops", ", ".join(place.call.call.ops)
            nodes = ((place.graph, place.phase, name) for name in place.call.call.nodes)
            yield "module", ", ".join(dict.fromkeys(module for key in nodes if (module := self._modules.get(key))))
        lines = [f"{line.file}:{line.line}" for line in place.lines]
        if lines:
            yield "line", lines[0] if len(lines) == 1 else ", ".join(lines)
        else:
            yield "no line", place.reason
