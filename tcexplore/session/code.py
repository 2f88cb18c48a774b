"""The code of a run for one target: Inductor's code and its machine code.

Fields that hold events are derived from their annotations: `tuple[X, ...]` keeps every event of type X, and `X | None`
the last one.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

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


def add_all(record: Record, events: Iterable[ev.Event]) -> Record:
    """Return the record with more events, each of which has a field of its type. It is copied once."""
    fields, last, more = event_fields(cast("type", type(record))), dict[str, Any](), dict[str, list[ev.Event]]()
    for event in events:
        field = fields[type(event)]
        if field.keeps_all:
            more.setdefault(field.name, []).append(event)
        else:
            last[field.name] = event
    changes = {**last, **{name: (*getattr(record, name), *added) for name, added in more.items()}}
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
    counters: tuple[ev.KernelCounters, ...] = ()
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

    @property
    def saved_for_backward(self) -> int | None:
        """Return the bytes that the compiled forward saves for the backward, without inputs.

        None if a size is unknown or nothing was partitioned.
        """
        sizes = [saved.bytes for part in self.partitions for saved in part.saved if not saved.input]
        known = [size for size in sizes if size is not None]
        return sum(known) if self.partitions and len(known) == len(sizes) else None


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


# ---- graphs below Dynamo's: their stages and phases

STAGES = ("joint", "inference", "forward", "backward", "post_grad")
"""In torch's order."""


def node_phases(graphs: Iterable[ev.AtenGraph], graph: ev.AtenGraph) -> Mapping[str, str]:
    """Return the phase of each node of a joint graph; empty for other graphs.

    The partitioner keeps the names of the nodes: a node has the phase of the partitioned graph that contains it, or
    `joint` if it was dropped.
    """
    if graph.stage != "joint":
        return {}
    phases = {node.name: "joint" for node in graph.nodes}
    parts = {other.stage: other for other in graphs if other.graph == graph.graph}
    for stage in ("backward", "forward"):
        if stage in parts:
            phases |= {node.name: stage for node in parts[stage].nodes if node.name in phases}
    return phases


def in_order(graphs: Iterable[ev.AtenGraph]) -> list[ev.AtenGraph]:
    """Sort by compile id in the order of arrival, then by stage, the forward before the backward."""
    first: dict[str, int] = {}
    known = list(graphs)
    for graph in known:
        first.setdefault(graph.graph, len(first))
    order = {stage: index for index, stage in enumerate(STAGES)}
    return sorted(known, key=lambda g: (first[g.graph], order.get(g.stage, len(order)), g.phase != "forward"))


def lowest(graphs: Iterable[ev.AtenGraph]) -> list[ev.AtenGraph]:
    """Return the last known stage of each graph and phase: the source of the kernels."""
    last: dict[tuple[str, str], ev.AtenGraph] = {}
    for graph in in_order(graphs):
        if graph.stage != "joint":
            last[graph.graph, graph.phase] = graph
    return list(last.values())
