"""Subgraphs in the text that torch prints of a graph: classes below that of the graph, one per attribute."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tcexplore.events import FxNode, Subgraph
from tcexplore.traces.graph_text import Place, read_graph

_CLASS = re.compile(r"^(\s*)class (\S+)\(torch\.nn\.Module\):")


@dataclass(slots=True)
class _Written:
    """A class with its text and the classes below it."""

    name: str
    indent: int
    lines: list[str] = field(default_factory=list)
    children: dict[str, _Written] = field(default_factory=dict)


def read_subgraphs(text: str, nodes: tuple[FxNode, ...], place: Place) -> tuple[Subgraph, ...]:
    """Return the subgraphs of a graph with these nodes, in the order in which they are first run."""
    if text.count("(torch.nn.Module):") < 2:
        return ()
    root = _classes(text)
    return tuple(_below(root, nodes, "", place)) if root is not None else ()


def _classes(text: str) -> _Written | None:
    root: _Written | None = None
    stack: list[_Written] = []
    for line in text.split("\n"):
        match = _CLASS.match(line)
        if match is None:
            if stack:
                stack[-1].lines.append(line)
            continue
        written = _Written(match[2], len(match[1]))
        while stack and stack[-1].indent >= written.indent:
            stack.pop()
        if stack:
            stack[-1].children[written.name] = written
        elif root is None:
            root = written
        else:
            break
        stack.append(written)
    return root


def _below(written: _Written, nodes: tuple[FxNode, ...], path: str, place: Place) -> Iterator[Subgraph]:
    attributes = {node.name: node.target for node in nodes if node.op == "get_attr" and node.target in written.children}
    seen: set[str] = set()
    for node in nodes:
        for name in node.inputs:
            attribute = attributes.get(name)
            if attribute is None or attribute in seen:
                continue
            seen.add(attribute)
            child = written.children[attribute]
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
