"""The code of a run for one device: what Inductor generates for it, and how far it was brought to the machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from tcexplore import events as ev

NATIVE = "native"
"""The device in the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Generated code for one target. Tuples hold events in the order of their arrival."""

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

    def add(self, event: Any) -> Code:
        """Return the code with one more event of its target."""
        field = CODE_EVENTS[type(event).__name__]
        added: dict[str, Any] = {field: (*getattr(self, field), event)}
        return replace(self, **added)


CODE_EVENTS = {
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
"""Field of each event that belongs to one target, by class name."""


def target_of(config: ev.Config) -> str:
    """The name that a run's target has in its events: of a file, what it is called without its ending."""
    return PurePath(config.target).stem if config.target.endswith(".toml") else config.target
