"""Compile a small program in this process with the capture of Dynamo and the guards, without Inductor."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
import torch._dynamo

from tcexplore.capture.dynamo import (
    dynamo_graphs,
    eager_ops,
    frame_entries,
    graph_breaks,
    guards,
    recompiles,
    symbolic_sizes,
)
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Event, FactMissing, Location

_MODULES = (
    dynamo_graphs, graph_breaks, guards, symbolic_sizes, recompiles, frame_entries, eager_ops,
)  # fmt: skip

E = TypeVar("E", bound=Event)


@contextlib.contextmanager
def capture_events(file: str) -> Iterator[list[Event]]:
    """Capture Dynamo within the context; yield the list of events."""
    torch._dynamo.reset()  # before the hooks, which let the ids of frames continue after a reset
    events: list[Event] = []
    hooks = Hooks(events.append)
    trace = StructuredTrace(hooks)
    project = UserFiles(file)
    for module in _MODULES:
        module.install(hooks, trace, project)
    trace.install()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about code that it cannot trace
            yield events
    finally:
        trace.remove()
        hooks.remove()
        torch._dynamo.reset()


def capture(program: Callable[..., Any], *calls: tuple[Any, ...], **options: Any) -> list[Event]:
    """Compile a program, make these calls (by default one with a small tensor) and return the events.

    Exceptions of the calls are ignored: the capture must work in any case.
    """
    function = program.forward if isinstance(program, torch.nn.Module) else program
    with capture_events(inspect.getsourcefile(function) or "") as events:
        compiled = torch.compile(program, backend="eager", **options)
        for call in calls or ((torch.ones(4, 4),),):
            with contextlib.suppress(Exception):
                compiled(*call)
    return events


def select(kind: type[E], events: list[Event]) -> list[E]:
    """Return the events of one kind, in order."""
    return [event for event in events if isinstance(event, kind)]


def hook_failures(events: list[Event]) -> list[FactMissing]:
    """Return the hooks whose observer failed, except those that this torch does not support."""
    return [missing for missing in select(FactMissing, events) if not missing.reason.startswith("this torch has no")]


def line_number(function: Callable[..., Any], text: str) -> int:
    """Return the first line of a function's source that contains `text`."""
    lines, first = inspect.getsourcelines(function)
    return next(first + n for n, line in enumerate(lines) if text in line)


def location_of(function: Callable[..., Any], text: str) -> Location:
    """Return the location of that line."""
    return Location(inspect.getsourcefile(function) or "", line_number(function, text), function.__name__)
