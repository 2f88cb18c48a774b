"""The subgraphs of a graph: the branches of `torch.cond`, the body of a loop, the score function of FlexAttention."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from torch.fx import GraphModule

from tcexplore.events import FxNode, Subgraph


class _Child(NamedTuple):
    """A graph module that a node of another graph runs."""

    path: str
    """Names of the attributes that lead to it, joined with dots."""
    caller: str
    """The first node that reads it, with the path of that node's graph."""
    module: GraphModule


def read_subgraphs(module: Any, read_node: Callable[[Any], FxNode]) -> tuple[Subgraph, ...]:
    """Return the subgraphs of a graph module, nested ones too, with nodes that `read_node` makes.

    The names of their nodes begin with the path of the subgraph, since each subgraph has its own names.
    """
    return tuple(
        Subgraph(
            name=child.path,
            node=child.caller,
            nodes=tuple(_in_subgraph(read_node(node), child.path) for node in child.module.graph.nodes),
        )
        for child in _children(module, "", set())
    )


def subgraph_paths(module: Any) -> dict[int | None, str]:
    """Return the path of each subgraph by the id of its graph object."""
    return {id(child.module.graph): child.path for child in _children(module, "", set())}


def node_name(path: str, name: str) -> str:
    """Return the name of a node of the subgraph with this path."""
    return f"{path}.{name}" if path else name


def _children(module: Any, path: str, seen: set[Any]) -> Iterator[_Child]:
    """Yield each graph module that a node of `module` reads, once, in the order of the nodes."""
    for node in module.graph.nodes:
        for attribute in node.all_input_nodes:
            child = getattr(module, str(attribute.target), None) if attribute.op == "get_attr" else None
            if isinstance(child, GraphModule) and child not in seen:
                seen.add(child)
                inner = node_name(path, str(attribute.target))
                yield _Child(inner, node_name(path, node.name), child)
                yield from _children(child, inner, seen)


def _in_subgraph(node: FxNode, path: str) -> FxNode:
    inputs = tuple(node_name(path, name) for name in node.inputs)
    return replace(node, name=node_name(path, node.name), inputs=inputs)
