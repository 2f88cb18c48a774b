"""The code of a run for one device: what Inductor generates for it, and how far it was brought to the machine."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import Any

from tcexplore import events as ev

NATIVE = "native"
"""The device in the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """`target` is `native` or a name of the device table; tuples hold events in the order of their arrival.

    A `Snapshot` has the same fields, of the target in view.
    """

    target: str
    aten_graphs: tuple[ev.AtenGraph, ...] = ()
    partitions: tuple[ev.Partitioned, ...] = ()
    passes: tuple[ev.PassRun, ...] = ()
    kernels: tuple[ev.Kernel, ...] = ()
    wrappers: tuple[ev.Wrapper, ...] = ()
    fusion: tuple[ev.FusionDecision, ...] = ()
    schedules: tuple[ev.ScheduleMade, ...] = ()
    lowered: tuple[ev.TargetLowered, ...] = ()
    not_lowered: tuple[ev.TargetSkipped, ...] = ()
    assembled: tuple[ev.KernelAssembled, ...] = ()
    not_assembled: tuple[ev.KernelNotAssembled, ...] = ()
    roofline: tuple[ev.RooflinePoint, ...] = ()
    vectorized: tuple[ev.LoopVectorized, ...] = ()


FIELDS = {
    "AtenGraph": "aten_graphs",
    "Partitioned": "partitions",
    "PassRun": "passes",
    "Kernel": "kernels",
    "Wrapper": "wrappers",
    "FusionDecision": "fusion",
    "ScheduleMade": "schedules",
    "TargetLowered": "lowered",
    "TargetSkipped": "not_lowered",
    "KernelAssembled": "assembled",
    "KernelNotAssembled": "not_assembled",
    "RooflinePoint": "roofline",
    "LoopVectorized": "vectorized",
}
"""Where the events go that belong to one device, by the names of their classes."""


def target_of(config: ev.Config) -> str:
    """The name that a run's target has in its events: of a file, what it is called without its ending."""
    return PurePath(config.target).stem if config.target.endswith(".toml") else config.target


def grown(code: Code, event: Any) -> Code:
    """The code with one more event of its target."""
    field = FIELDS[type(event).__name__]
    return Code(**{**as_fields(code), field: (*getattr(code, field), event)})


def as_fields(code: Any) -> dict[str, Any]:
    """The fields of a `Code`, or those that a `Snapshot` shares with it."""
    return {field.name: getattr(code, field.name) for field in fields(Code)}
