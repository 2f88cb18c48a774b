"""An FX node of any graph, from Dynamo's to Inductor's, as a record, and the subgraphs of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from torch.fx import GraphModule
from torch.fx.node import Node

from tcexplore.capture.dynamo.trace_position import user_frames
from tcexplore.capture.fx.fx_text import args_text, target_text
from tcexplore.capture.fx.tensor_descriptions import tensor_facts
from tcexplore.capture.fx.user_ops import user_op
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import FxNode, Subgraph
from tcexplore.torch_text.dynamo_names import readable_source

_NOT_COMPUTED = ("placeholder", "output")
"""The metadata of these nodes is that of the first node that uses them."""


def fx_node(node: Node, user_files: UserFiles) -> FxNode:
    """Return the record of a node.

    Dynamo keeps a node's value in `meta["example_value"]`, AOTAutograd and Inductor in `meta["val"]`.
    """
    meta = node.meta
    facts = tensor_facts(meta.get("example_value", meta.get("val")))
    computed = node.op not in _NOT_COMPUTED
    stack = user_frames(node.stack_trace, user_files) if computed else ()
    return FxNode(
        name=node.name,
        op=node.op,
        target=_input_name(node) if node.op == "placeholder" else target_text(node),
        args=args_text(node),
        inputs=tuple(source.name for source in node.all_input_nodes),
        dtype=facts.dtype if facts else None,
        shape=facts.shape if facts else None,
        stride=facts.stride if facts else None,
        contiguous=facts.contiguous if facts else True,
        device=facts.device if facts else None,
        location=stack[-1] if stack else None,
        stack=stack,
        module=_module_path(meta) if computed else None,
        origins=root_names(meta),
        user_op=user_op(node) if node.op == "call_function" else None,
    )


def _input_name(node: Node) -> str:
    """Return the user's name of an input (`x`, `self.fc1.weight`), or FX's name if Dynamo recorded no source."""
    source = getattr(node.meta.get("grapharg"), "source", None)
    if source is None:
        return str(node.target)
    return readable_source(source.name if isinstance(source.name, str) else source.name())


def _module_path(meta: dict[str, Any]) -> str | None:
    """Return the path of the innermost module. A backward node belongs to the module of its forward node."""
    modules = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack")
    return readable_source(next(reversed(modules.values()))[0]) if modules else None


def root_names(meta: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the nodes of the first graph that a node descends from, without duplicates."""
    return tuple(dict.fromkeys(source.name for source in root_sources(meta)))


def root_sources(meta: dict[str, Any]) -> list[Any]:
    """Return torch's records of the nodes of the first graph that a node descends from."""
    roots, pending = [], list(meta.get("from_node") or ())
    while pending:
        source = pending.pop(0)
        parents = getattr(source, "from_node", None)
        if parents:
            pending = [*parents, *pending]
        else:
            roots.append(source)
    return roots


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
