"""Modules and lines of the ops that a compiled call runs outside every graph, from one call with its Python functions.

A dispatch mode would tell them, too, but under one, Dynamo runs no compiled code.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tcexplore.capture.dynamo.eager_ops import MARKED, quiet_profiler
from tcexplore.capture.inductor.call_parts import GRAPHS, is_op, op_name
from tcexplore.capture.module_paths import ModulePath, known_paths
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import CallPart, CallProfiled, GraphPhase, Location

FACT = "modules and lines of eager ops"
SYMBOL = "torch.profiler:_KinetoProfile.experimental_event_tree"

_BACKWARD = "autograd::engine::evaluate_function"

_TCEXPLORE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

LEAST_SHARE, LONGEST_US = 0.005, 5e6
"""The least share of a call that its eager ops take, and the longest call, for which their places are worth a call."""


class Place(NamedTuple):
    """Where an op runs."""

    module: ModulePath | None
    """None outside all modules."""
    location: Location | None
    """Line of the user; None of an operator such as `+`, which calls no function."""
    phase: GraphPhase = "forward"


_NOWHERE = Place(None, None)


@dataclass(slots=True)
class _Runs:
    """The runs of an op at a place."""

    count: int = 0
    us: float = 0.0


Places = Mapping[str, Mapping[Place, _Runs]]
"""Where each op runs outside every graph, by its name."""


def has_eager_ops(profile: CallProfiled) -> bool:
    """Return whether eager ops take a share of a call that is worth another call."""
    us = sum(part.us for part in profile.parts if part.kind == "eager op")
    return us >= LEAST_SHARE * profile.total_us and profile.total_us <= LONGEST_US


def eager_op_places(call: Callable[[], object], reset: Callable[[], None], user_files: UserFiles) -> Places:
    """Return where a `call()` runs eager ops. Graphs have to be marked. Exceptions of `call` propagate."""
    from torch.profiler import ProfilerActivity, profile

    with quiet_profiler(), profile(activities=[ProfilerActivity.CPU], with_stack=True) as profiler:
        _profiled(call)
    reset()
    results: Any = profiler.profiler
    places: dict[str, dict[Place, _Runs]] = defaultdict(dict)
    for event, place in _eager_ops(results.kineto_results.experimental_event_tree(), user_files):
        runs = places[op_name(event.name)].setdefault(place, _Runs())
        runs.count += 1
        runs.us += event.duration_time_ns / 1e3
    return places


def _profiled(call: Callable[[], object]) -> None:
    call()


def _eager_ops(roots: list[Any], user_files: UserFiles) -> list[tuple[Any, Place]]:
    """Return each op below the call that is in no graph and in no other op.

    An op of the backward has the place of its forward op, whose sequence number it shares. Autograd has a thread for
    each device.
    """
    paths, files = known_paths(), _Files(user_files)
    ops: list[tuple[Any, Place, int | None]] = []
    forwards: dict[int, Place] = {}
    events: list[tuple[Any, bool, Place, int | None]] = [(root, False, _NOWHERE, None) for root in reversed(roots)]
    while events:
        event, in_call, place, sequence = events.pop()  # the sequence number is that of a backward
        fields = event.typed[1]
        if event.name.startswith(_BACKWARD):
            in_call, place, sequence = True, _NOWHERE, fields.sequence_number
        if in_call and (event.name.startswith(GRAPHS) or files.is_own(fields, MARKED)):
            continue
        if in_call and is_op(event.name):
            ops.append((event, place, sequence))
            if sequence is None:
                forwards |= dict.fromkeys(_sequences(event), place)
            continue
        place = _inside(fields, place, paths, files)
        in_call = in_call or files.is_own(fields, _profiled.__name__)
        events += [(child, in_call, place, sequence) for child in reversed(event.children)]
    return [
        (event, place if sequence is None else forwards.get(sequence, _NOWHERE)._replace(phase="backward"))
        for event, place, sequence in ops
    ]


def _sequences(event: Any) -> Iterator[int]:
    """Yield the sequence numbers that autograd has for an op and those inside it."""
    number = getattr(event.typed[1], "sequence_number", -1)
    if number >= 0:
        yield number
    for child in event.children:
        yield from _sequences(child)


class _Files:
    """The files of Python functions in a profile, whose names torch shortens by what is on the path of imports."""

    def __init__(self, user_files: UserFiles) -> None:
        self._user_files = user_files
        self._whole: dict[str, str] = {}

    def _path(self, name: str) -> str:
        if name not in self._whole:
            paths = (os.path.abspath(os.path.join(folder, name)) for folder in sys.path)
            known = (path for path in paths if path == self._user_files.file or os.path.isfile(path))
            self._whole[name] = name if os.path.isabs(name) else next(known, name)
        return self._whole[name]

    def is_own(self, fields: Any, function: str) -> bool:
        """Return whether an event is a function of tcexplore. In this tree, torch's ranges contain no functions."""
        called = getattr(fields, "callsite", None)
        if called is None or called.function_name != function:
            return False
        return self._path(called.file_name).startswith(_TCEXPLORE)

    def is_users(self, frame: Any) -> bool:
        return self._user_files.owns(self._path(frame.file_name))

    def location(self, frame: Any) -> Location:
        return self._user_files.location(self._path(frame.file_name), frame.line_number, frame.function_name)


def _inside(fields: Any, place: Place, paths: Mapping[int, ModulePath], files: _Files) -> Place:
    """Return the place of what an event contains: a Python function has the line that calls it, and its own frame."""
    caller = getattr(fields, "caller", None)
    if caller is None:
        return place
    if files.is_users(caller):
        place = place._replace(location=files.location(caller))
    function, module = getattr(fields, "callsite", None), getattr(fields, "module", None)
    if function is not None and files.is_users(function):
        place = place._replace(location=None)
    if module is not None and (path := paths.get(module.self_ptr)) is not None:
        place = place._replace(module=path)
    return place


def with_places(profile: CallProfiled, places: Places) -> CallProfiled:
    """Return a profile with its eager ops split over their places, by the time that they take on the host."""
    parts = [each for part in profile.parts for each in _placed(part, places)]
    return replace(profile, parts=tuple(sorted(parts, key=lambda part: -part.us)))


def _placed(part: CallPart, places: Places) -> Iterator[CallPart]:
    runs = places.get(part.name, {}) if part.kind == "eager op" else {}
    total = sum(each.us for each in runs.values())
    if not total:
        yield part
    for (module, location, phase), each in runs.items() if total else ():
        share = each.us / total
        yield replace(
            part,
            us=part.us * share,
            low_us=part.low_us * share,
            high_us=part.high_us * share,
            launches=each.count,
            phase=phase,
            location=location,
            root=module.root if module is not None else "",
            module=module.path if module is not None else None,
        )
