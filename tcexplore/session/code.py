"""The code of a run for one target: Inductor's code and its machine code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from tcexplore import events as ev
from tcexplore.session.event_fields import event_fields

NATIVE = "native"
"""The device of this machine."""


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

    def add(self, event: ev.Event) -> Code:
        """Return the code with one more event of its target."""
        return event_fields(Code)[type(event)].add(self, event)


def target_of(config: ev.Config) -> str:
    """Return the name of a run's target: the stem of a TOML file, else the name of the device table."""
    return PurePath(config.target).stem if config.target.endswith(".toml") else config.target
