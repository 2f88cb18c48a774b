"""Graphs below Dynamo's: their stages and phases, and the values saved for the backward."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tcexplore import events as ev
from tcexplore.targets.target_names import NATIVE

if TYPE_CHECKING:
    from tcexplore.session.snapshot import Snapshot

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


def saved_for_backward(snapshot: Snapshot) -> int | None:
    """Return the bytes that the compiled forward saves for the backward, without inputs.

    None if a size is unknown or nothing was partitioned.
    """
    partitions = snapshot.code_for(NATIVE).partitions
    sizes = [saved.bytes for part in partitions for saved in part.saved if not saved.input]
    known = [size for size in sizes if size is not None]
    return sum(known) if partitions and len(known) == len(sizes) else None
