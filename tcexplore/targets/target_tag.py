"""Tags on the events of a lowering for a target, which come from the same hooks as the run's own events."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace

from tcexplore.events import (
    AtenGraph,
    Event,
    FactMissing,
    FusionDecision,
    Kernel,
    Partitioned,
    PassRun,
    ScheduleMade,
    Wrapper,
)

_TAGGED = (AtenGraph, FusionDecision, Kernel, Partitioned, PassRun, ScheduleMade, Wrapper)


@dataclass(slots=True)
class _Lowering:
    target: str
    kernels: int = 0
    emits: bool = True


_current: ContextVar[_Lowering | None] = ContextVar("tcexplore_lowering", default=None)


@contextlib.contextmanager
def lowering_for(target: str) -> Iterator[Callable[[], int]]:
    """Tag events with `target` while the context is active; yield a function that returns its Triton kernel count."""
    outer = _current.get()
    lowering = _Lowering(target, emits=outer is None or outer.emits)
    token = _current.set(lowering)
    try:
        yield lambda: lowering.kernels
    finally:
        _current.reset(token)


@contextlib.contextmanager
def suppress_events() -> Iterator[None]:
    """Drop all events of the hooks while the context is active."""
    token = _current.set(_Lowering("", emits=False))
    try:
        yield
    finally:
        _current.reset(token)


def tag(event: Event) -> Event | None:
    """Return an event of a hook with the target that Inductor lowers for.

    Return None for other events of a lowering (phases, caches, compile times): they do not describe the run.
    """
    lowering = _current.get()
    if lowering is None:
        return event
    if not lowering.emits:
        return None
    if isinstance(event, _TAGGED):
        lowering.kernels += isinstance(event, Kernel) and event.language == "triton"
        return replace(event, target=lowering.target)
    return event if isinstance(event, FactMissing) else None
