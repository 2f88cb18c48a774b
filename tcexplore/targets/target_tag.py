"""Which events belong to a lowering for a target: the same hooks see both, and this tells them apart."""

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
    seen: bool = True


_current: ContextVar[_Lowering | None] = ContextVar("tcexplore_lowering", default=None)


@contextlib.contextmanager
def lowering_for(target: str) -> Iterator[Callable[[], int]]:
    """While inside, Inductor works for `target`. Gives a function that counts the Triton kernels seen."""
    outer = _current.get()
    lowering = _Lowering(target, seen=outer is None or outer.seen)
    token = _current.set(lowering)
    try:
        yield lambda: lowering.kernels
    finally:
        _current.reset(token)


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """While inside, nothing that the hooks see is emitted."""
    token = _current.set(_Lowering("", seen=False))
    try:
        yield
    finally:
        _current.reset(token)


def tagged(emit: Callable[[Event], None]) -> Callable[[Event], None]:
    """`emit` for all hooks: sets the target on what a lowering generates, and drops what says how the run goes on
    (phases, caches, compile times), since that lowering is no part of the run."""

    def emit_tagged(event: Event) -> None:
        lowering = _current.get()
        if lowering is None:
            emit(event)
        elif not lowering.seen:
            return
        elif isinstance(event, _TAGGED):
            lowering.kernels += isinstance(event, Kernel) and event.language == "triton"
            emit(replace(event, target=lowering.target))
        elif isinstance(event, FactMissing):
            emit(event)

    return emit_tagged
