"""What was found out about code for a device that is not in the machine."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.events.base import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLowered(Event):
    """One graph, or its backward, was lowered for `target`.

    `kernels` Triton kernels were generated in `seconds`. `notes` say what was assumed where the device itself would
    have been asked (a choice that torch makes by measuring, the attention kernel it takes).
    """

    graph: str
    target: str
    kernels: int
    seconds: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSkipped(Event):
    """A graph, or a part of it, could not be lowered for `target`: the op where it stopped, and why."""

    graph: str
    target: str
    op: str
    reason: str
