"""Collectives of a run in the order in which its graphs call them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.session.graph_stages import lowest
from tcexplore.session.snapshot import Snapshot

_COLLECTIVE = re.compile(
    r"(?:_c10d_functional(?:_autograd)?|c10d_functional|torch\.distributed|c10d)\.(?!wait_tensor)\w+"
)
_GROUP = re.compile(r"'([^']*)'\s*$")


class CollectiveCall(NamedTuple):
    """One collective of a graph."""

    graph: str
    phase: str
    op: str
    group: str
    """Name of the process group; empty if unknown."""
    bytes: int | None
    """Size of its result; None if symbolic."""
    node: ev.FxNode


def is_collective(node: ev.FxNode) -> bool:
    """Return whether a node communicates; waiting for the result is another node."""
    return node.op in ("call_function", "call_method") and _COLLECTIVE.match(node.target) is not None


def collective_calls(snapshot: Snapshot) -> Iterator[CollectiveCall]:
    """Yield the collectives of each graph, from its last known stage."""
    lowered = {(graph.graph, graph.phase): graph.nodes for graph in lowest(snapshot.code.aten_graphs) if graph.nodes}
    known = {graph for graph, _ in lowered}
    graphs = [(graph, phase, nodes) for (graph, phase), nodes in lowered.items()]
    graphs += [(graph.graph, "forward", graph.nodes) for graph in snapshot.graphs if graph.graph not in known]
    for graph, phase, nodes in graphs:
        for node in filter(is_collective, nodes):
            name = node.target.removesuffix(".default").rpartition(".")[2]
            group = _GROUP.search(node.args)
            yield CollectiveCall(graph, phase, name, group[1] if group else "", node.tensor_bytes, node)
