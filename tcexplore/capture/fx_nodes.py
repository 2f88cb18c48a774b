"""FX graphs of any stage: nodes as records and as text, and subgraphs."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch.fx import Graph, GraphModule
from torch.fx.node import Node, _get_qualified_name

from tcexplore.capture.dynamo.trace_position import user_frames
from tcexplore.capture.tensor_descriptions import tensor_facts
from tcexplore.capture.user_files import UserFiles
from tcexplore.capture.user_ops import launch_arguments, user_op
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
    stack = user_frames(node, user_files) if computed else ()
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
        module=module_path(meta) if computed else None,
        origins=root_names(meta),
        user_op=user_op(node) if node.op == "call_function" else None,
    )


def _input_name(node: Node) -> str:
    """Return the user's name of an input (`x`, `self.fc1.weight`), or FX's name if Dynamo recorded no source."""
    source = getattr(node.meta.get("grapharg"), "source", None)
    if source is None:
        return str(node.target)
    return readable_source(source.name if isinstance(source.name, str) else source.name())


def module_path(meta: dict[str, Any]) -> str | None:
    """Return the path of the innermost module."""
    modules = _module_stack(meta)
    return readable_source(next(reversed(modules.values()))[0]) if modules else None


def enclosing_modules(node: Node) -> tuple[str, ...]:
    """Return the paths of the modules around a node, outermost first."""
    return tuple(readable_source(source) for source, _ in _module_stack(node.meta).values())


def _module_stack(meta: dict[str, Any]) -> dict[str, tuple[str, type | str]]:
    """Return the source and class of each module, outermost first. A backward node has those of its forward node."""
    return meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}


def module_stacks(nodes: Iterable[Node]) -> Iterator[dict[str, str]]:
    """Yield the modules around each node of a new module, outermost first: Dynamo's source and the class of each."""
    known = set[str]()
    for node in nodes:
        stack = {source: _class_name(kind) for source, kind in _module_stack(node.meta).values()}
        if not known.issuperset(stack):
            known |= stack.keys()
            yield stack


def _class_name(kind: type | str) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind).rpartition(".")[2]


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
    return {id(graph): path for path, graph in graphs_of(module) if path}


def graphs_of(module: Any) -> Iterator[tuple[str, Graph]]:
    """Yield the graph of a graph module, and those of its subgraphs with their paths."""
    yield "", module.graph
    for child in _children(module, "", set()):
        yield child.path, child.module.graph


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


MAX_VALUE_LENGTH = 60
MAX_ITEMS = 16

_PUBLIC = ((torch.nn.functional, "torch.nn.functional"), (torch, "torch"))


class GraphText:
    """Formats a graph as lines of text repeatedly while passes change it. Lines of unchanged nodes are cached."""

    def __init__(self) -> None:
        self._lines: dict[Any, tuple[str, Any, Any, Any, str]] = {}
        """Each node's name, target, args, kwargs and line. A pass that changes a node replaces these objects."""

    def lines(self, graph: Any) -> list[str]:
        """Return one line per node: `name = target(args)`."""
        known = self._lines
        lines: list[str] = []
        for node in graph.nodes:  # runs twice per pass
            earlier = known.get(node)
            if earlier is not None:
                name, target, args, kwargs, line = earlier
                if args is node.args and kwargs is node.kwargs and target is node.target and name == node.name:
                    lines.append(line)
                    continue
            line = node_line(node)
            known[node] = node.name, node.target, node.args, node.kwargs, line
            lines.append(line)
        return lines


def node_line(node: Any) -> str:
    """Return a node as `name = target(args)`."""
    if node.op == "placeholder":
        return f"{node.name} = {node.op}"
    if node.op == "output":
        return f"{node.op}({args_text(node)})"
    if node.op == "get_attr":
        return f"{node.name} = {node.target}"
    return f"{node.name} = {target_text(node)}({args_text(node)})"


def target_text(node: Node) -> str:
    """Return torch's public name of a node's callee, or the plain name of an operator or method."""
    target: Any = node.target
    if isinstance(target, str | torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return str(target)
    name: str = getattr(target, "__name__", "")
    if getattr(operator, name, None) is target:
        return name
    for module, public in _PUBLIC:
        if getattr(module, name, None) is target:
            return f"{public}.{name}"
    try:
        qualified = str(_get_qualified_name(target)).replace("torch.ops.", "")
    except Exception:  # noqa: BLE001  torch raises various errors for objects without a module, such as a callable instance
        return str(name or f"<{type(target).__name__}>")
    behind = qualified.removeprefix("torch._C._nn.")
    is_public = behind != qualified and hasattr(torch.nn.functional, behind)
    return f"torch.nn.functional.{behind}" if is_public else qualified


def args_text(node: Node) -> str:
    """Return all arguments, kwargs last: `x, [y, z], dim=0`; for a Triton kernel its grid and its arguments."""
    launch = launch_arguments(node)
    if launch is not None:
        return ", ".join(f"{key}={arg_text(value)}" for key, value in launch.items())
    parts = [arg_text(arg) for arg in node.args]
    parts += [f"{key}={arg_text(value)}" for key, value in node.kwargs.items()]
    return ", ".join(parts)


def arg_text(value: Any) -> str:
    """Return one argument: the name of a node, the Python literal of a constant, the type of an object."""
    if isinstance(value, Node):
        return str(value.name)
    formatter = next((formatter for kinds, formatter in _FORMATTERS if isinstance(value, kinds)), None)
    return formatter(value) if formatter else f"<{type(value).__name__}>"


def _constant(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_VALUE_LENGTH else text[: MAX_VALUE_LENGTH - 1] + "…"


def _items(values: Iterable[Any], total: int) -> str:
    items = [arg_text(value) for _, value in zip(range(MAX_ITEMS), values, strict=False)]
    return ", ".join([*items, f"… {total} in all"] if total > MAX_ITEMS else items)


def _tuple(value: tuple[Any, ...]) -> str:
    return f"({_items(value, len(value))}{',' if len(value) == 1 else ''})"


def _list(value: list[Any]) -> str:
    return f"[{_items(value, len(value))}]"


def _dict(value: dict[Any, Any]) -> str:
    return "{" + ", ".join(f"{arg_text(key)}: {arg_text(item)}" for key, item in value.items()) + "}"


def _slice(value: slice) -> str:
    start, stop = ("" if end is None else arg_text(end) for end in (value.start, value.stop))
    return f"{start}:{stop}" + ("" if value.step is None else f":{arg_text(value.step)}")


_TORCH_CONSTANTS = (torch.dtype, torch.memory_format, torch.layout, torch.device, enum.Enum)
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)

_FORMATTERS: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    ((bool, int, float, complex, str, bytes, type(None)), _constant),
    (type(Ellipsis), lambda _: "..."),
    (tuple, _tuple),
    (list, _list),
    (dict, _dict),
    (slice, _slice),
    (_TORCH_CONSTANTS, str),
    (_SYMBOLS, str),
    (torch._ops.OpOverload, str),
)
