"""The graphs below Dynamo's, stage by stage, and what the stages have to do with each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tcexplore import events as ev
from tcexplore.session.code import NATIVE
from tcexplore.session.snapshot import Snapshot

STAGES = ("joint", "inference", "forward", "backward", "post_grad")
"""In the order in which torch makes them."""


def node_phases(graphs: Iterable[ev.AtenGraph], graph: ev.AtenGraph) -> Mapping[str, str]:
    """The phase of each node of `graph` that is not of the graph's own.

    The joint graph holds forward and backward; the partitioner keeps its nodes' names, so that each is of the phase in
    which it stands again. One that stands in neither was dropped, and has the phase `joint`.
    """
    if graph.stage != "joint":
        return {}
    found = {node.name: "joint" for node in graph.nodes}
    parts = {other.stage: other for other in graphs if other.graph == graph.graph}
    for stage in ("backward", "forward"):
        if stage in parts:
            found |= {node.name: stage for node in parts[stage].nodes if node.name in found}
    return found


def in_order(graphs: Iterable[ev.AtenGraph]) -> list[ev.AtenGraph]:
    """By compile id as it first came, then in the order of the stages, the forward before the backward."""
    first: dict[str, int] = {}
    known = list(graphs)
    for graph in known:
        first.setdefault(graph.graph, len(first))
    order = {stage: index for index, stage in enumerate(STAGES)}
    return sorted(known, key=lambda g: (first[g.graph], order.get(g.stage, len(order)), g.phase != "forward"))


def lowest(graphs: Iterable[ev.AtenGraph]) -> list[ev.AtenGraph]:
    """For each graph and phase the last stage that is known: what the kernels were made of."""
    last: dict[tuple[str, str], ev.AtenGraph] = {}
    for graph in in_order(graphs):
        if graph.stage != "joint":
            last[graph.graph, graph.phase] = graph
    return list(last.values())


def saved_for_backward(snapshot: Snapshot) -> int | None:
    """Bytes that the compiled forward, as it runs here, hands to the backward, inputs left out; None where a size is
    unknown or nothing was partitioned."""
    partitions = snapshot.code_for(NATIVE).partitions
    sizes = [saved.bytes for part in partitions for saved in part.saved if not saved.input]
    known = [size for size in sizes if size is not None]
    return sum(known) if partitions and len(known) == len(sizes) else None
