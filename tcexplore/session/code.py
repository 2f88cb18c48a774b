"""The code of a run for one target: Inductor's code and its machine code.

Fields that hold events are derived from their annotations: `tuple[X, ...]` keeps every event of type X, and `X | None`
the last one.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from tcexplore import events as ev

Record = TypeVar("Record")


class EventField(NamedTuple):
    """A field that holds events of one type."""

    name: str
    keeps_all: bool

    def add(self, record: Record, event: ev.Event) -> Record:
        """Return the record with one more event in this field."""
        value = (*getattr(record, self.name), event) if self.keeps_all else event
        changes: dict[str, Any] = {self.name: value}
        return replace(record, **changes)  # type: ignore[type-var]


@cache
def event_fields(record: type) -> dict[type[ev.Event], EventField]:
    """Return the field of a dataclass that holds each type of event."""
    fields: dict[type[ev.Event], EventField] = {}
    for name, hint in get_type_hints(record).items():
        kind = get_args(hint)[0] if get_origin(hint) in (tuple, types.UnionType) else None
        if isinstance(kind, type) and issubclass(kind, ev.Event):
            fields[kind] = EventField(name, get_origin(hint) is tuple)
    return fields


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

    def without_graph(self, graph: str) -> Code:
        """Return the code without that of one graph."""
        kept: dict[str, Any] = {}
        for field in event_fields(Code).values():
            kept[field.name] = tuple(e for e in getattr(self, field.name) if getattr(e, "graph", "") != graph)
        return replace(self, **kept)


_merged: list[tuple[Code, Code, Code]] = []
"""Newest results of `code_in_view` with their arguments: views are cached by the identity of the code."""


def code_in_view(code: Code, native: Code) -> Code:
    """Return the code for a target, with the code of this machine for graphs that could not be lowered."""
    if not code.not_lowered or code is native:
        return code
    for known_code, known_native, merged in _merged:
        if known_code is code and known_native is native:
            return merged
    merged = _merge(code, native)
    _merged[:] = [*_merged[-7:], (code, native, merged)]
    return merged


def _merge(code: Code, native: Code) -> Code:
    lost = {skipped.graph for skipped in code.not_lowered}
    values: dict[str, Any] = {}
    for field in fields(Code):
        if field.name not in ("target", "lowered", "not_lowered"):
            events = getattr(code, field.name)
            ours = (event for event in events if event.graph not in lost)
            # An empty id means that no graph was lowered.
            values[field.name] = (*ours, *(e for e in getattr(native, field.name) if e.graph in lost or "" in lost))
    return replace(code, **values)


def target_of(config: ev.Config) -> str:
    """Return the name of a run's target: the stem of a TOML file, else the name of the device table."""
    return PurePath(config.target).stem if config.target.endswith(".toml") else config.target
