"""Subgraphs in the text that torch prints of a graph: one nested class per attribute."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tcexplore.events import FxNode, Subgraph
from tcexplore.traces.graph_text import Place, read_graph

_CLASS = re.compile(r"^(\s*)class (\S+)\(torch\.nn\.Module\):")


@dataclass(slots=True)
class _PrintedClass:
    """A printed class, with the classes nested in it."""

    name: str
    indent: int
    lines: list[str] = field(default_factory=list)
    children: dict[str, _PrintedClass] = field(default_factory=dict)


def read_subgraphs(text: str, nodes: tuple[FxNode, ...], place: Place) -> tuple[Subgraph, ...]:
    """Return the subgraphs of a graph with these nodes, in the order in which they are first run."""
    if text.count("(torch.nn.Module):") < 2:
        return ()
    root = _classes(text)
    return tuple(_below(root, nodes, "", place)) if root is not None else ()


def _classes(text: str) -> _PrintedClass | None:
    root: _PrintedClass | None = None
    stack: list[_PrintedClass] = []
    for line in text.split("\n"):
        match = _CLASS.match(line)
        if match is None:
            if stack:
                stack[-1].lines.append(line)
            continue
        printed = _PrintedClass(match[2], len(match[1]))
        while stack and stack[-1].indent >= printed.indent:
            stack.pop()
        if stack:
            stack[-1].children[printed.name] = printed
        elif root is None:
            root = printed
        else:
            break
        stack.append(printed)
    return root


def _below(printed: _PrintedClass, nodes: tuple[FxNode, ...], path: str, place: Place) -> Iterator[Subgraph]:
    attributes = {node.name: node.target for node in nodes if node.op == "get_attr" and node.target in printed.children}
    seen: set[str] = set()
    for node in nodes:
        for name in node.inputs:
            attribute = attributes.get(name)
            if attribute is None or attribute in seen:
                continue
            seen.add(attribute)
            child = printed.children[attribute]
            inner = f"{path}.{attribute}" if path else attribute
            own = read_graph("\n".join(child.lines), place)
            yield Subgraph(
                name=inner,
                node=f"{path}.{node.name}" if path else node.name,
                nodes=tuple(_renamed(node, inner) for node in own),
            )
            yield from _below(child, own, inner, place)


def _renamed(node: FxNode, path: str) -> FxNode:
    return replace(node, name=f"{path}.{node.name}", inputs=tuple(f"{path}.{name}" for name in node.inputs))
