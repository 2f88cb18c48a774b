"""Compile a small program in this process with the Dynamo half of the capture on; Inductor is not the point here."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
import torch._dynamo

from tcexplore.capture.dynamo import dynamo_graphs as graphs
from tcexplore.capture.dynamo import eager_ops as outside
from tcexplore.capture.dynamo import frame_entries, recompiles
from tcexplore.capture.dynamo import graph_breaks as breaks
from tcexplore.capture.dynamo import skipped_frames as skips
from tcexplore.capture.guards import guards
from tcexplore.capture.guards import symbolic_sizes as symbols
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Event, FactMissing, Location

_ROOMS = (graphs, breaks, skips, guards, symbols, recompiles, frame_entries, outside)

E = TypeVar("E", bound=Event)


@contextlib.contextmanager
def watching(file: str) -> Iterator[list[Event]]:
    """Dynamo is watched while inside; what is made known of the user's `file` goes into the list."""
    events: list[Event] = []
    hooks = Hooks(events.append)
    trace = StructuredTrace(hooks)
    project = UserFiles(file)
    for room in _ROOMS:
        room.install(hooks, trace, project)
    trace.install()
    torch._dynamo.reset()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's advice on what it cannot trace
            yield events
    finally:
        trace.remove()
        hooks.remove()
        torch._dynamo.reset()


def run(program: Callable[..., Any], *calls: tuple[Any, ...], **options: Any) -> list[Event]:
    """The events of compiling `program` and making these calls, by default one with a small tensor.

    What the calls raise is dropped: the user would see it, the capture has to work all the same.
    """
    written = program.forward if isinstance(program, torch.nn.Module) else program
    with watching(inspect.getsourcefile(written) or "") as events:
        compiled = torch.compile(program, backend="eager", **options)
        for call in calls or ((torch.ones(4, 4),),):
            with contextlib.suppress(Exception):
                compiled(*call)
    return events


def of(kind: type[E], events: list[Event]) -> list[E]:
    """The events of one kind, in order."""
    return [event for event in events if isinstance(event, kind)]


def broken(events: list[Event]) -> list[FactMissing]:
    """Hooks of which an observer failed; that this torch has no place for one is no fault."""
    return [missing for missing in of(FactMissing, events) if not missing.reason.startswith("this torch has no")]


def line_of(function: Callable[..., Any], text: str) -> int:
    """The line of a function's source that contains `text`, the first one."""
    lines, first = inspect.getsourcelines(function)
    return next(first + n for n, line in enumerate(lines) if text in line)


def at(function: Callable[..., Any], text: str) -> Location:
    """That line as a place."""
    return Location(inspect.getsourcefile(function) or "", line_of(function, text), function.__name__)
