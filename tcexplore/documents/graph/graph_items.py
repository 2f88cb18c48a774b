"""The items of one graph, nodes and modules, with their gutter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from tcexplore.documents.graph.graph_gutter import Drawn, draw_gutter
from tcexplore.documents.labels import KernelLabel, Labels
from tcexplore.events import AtenGraph, FxNode, GraphCaptured, Location, Subgraph
from tcexplore.session.links import Link, aten_link, node_link

FROM = 200
"""Minimum number of nodes of a graph that is divided into modules, folded at first."""

SHORTEST = 4
"""Minimum number of nodes of a fold."""


Kernels = Callable[[FxNode], Sequence[KernelLabel]]


GLYPHS = {"placeholder": "●", "get_attr": "●", "output": "◎"}
CALL, FOLDED = "○", "◍"


class SourceLine(NamedTuple):
    """A line of the definition of a user's kernel or op."""

    text: str
    location: Location | None


class Item(NamedTuple):
    """One row: a node, the heading of a module or subgraph (`module`), or a line below a node (`source`)."""

    nodes: Sequence[FxNode]
    module: str | None = None
    fold: str | None = None
    opened: bool = False
    """Whether the nodes of the module or subgraph have rows below."""
    source: SourceLine | None = None

    @property
    def glyph(self) -> str:
        if self.source:
            return " "
        return FOLDED if self.module else GLYPHS.get(self.nodes[0].op, CALL)


class Laid(NamedTuple):
    """The hidden nodes of a graph, its rows and their gutter."""

    hidden: tuple[FxNode, ...]
    items: list[Item]
    gutter: list[Drawn]


def lay_out_graph(graph: GraphOf, toggled: frozenset[str], columns: int) -> Laid:
    """Return the rows of a graph; the gutter is at most `columns` lines wide."""
    held = {subgraph.name.rpartition(".")[2] for subgraph in graph.subgraphs}
    nodes = [node for node in graph.nodes if not (node.op == "get_attr" and node.target in held)]
    hidden = tuple(node for node in nodes if graph.hidden(node))
    rest = [node for node in nodes if not graph.hidden(node)]
    items = list(_items(graph, rest, toggled))
    inputs = _inputs(items, {node.name for node in hidden})
    return Laid(hidden, items, draw_gutter(inputs, columns, [item.glyph for item in items]))


def _items(graph: GraphOf, nodes: Sequence[FxNode], toggled: frozenset[str]) -> Iterable[Item]:
    for run in divide_by_module(nodes):
        members = nodes[run.first : run.last]
        if run.module is not None:
            fold = f"module {graph.name} {members[0].name}"
            yield Item(members, run.module, fold, fold in toggled)
            if fold not in toggled:
                continue
        for node in members:
            yield from _node_items(graph, node, toggled)


def _node_items(graph: GraphOf, node: FxNode, toggled: frozenset[str]) -> Iterable[Item]:
    """Yield a node, the definition of a user's kernel or op if it is open, and the folds of its subgraphs."""
    user_op = node.user_op
    fold = f"source {graph.name} {node.name}" if user_op and user_op.source else None
    yield Item((node,), fold=fold)
    if user_op and fold in toggled:
        for index, line in enumerate(user_op.source.rstrip().split("\n")):
            at = user_op.location and replace(user_op.location, line=user_op.location.line + index)
            yield Item((), source=SourceLine(line, at))
    yield from _subgraph_items(graph, node.name, toggled)


def _subgraph_items(graph: GraphOf, caller: str, toggled: frozenset[str]) -> Iterable[Item]:
    """Yield the folds of the subgraphs that a node runs, and the nodes of those that are open."""
    for subgraph in graph.subgraphs:
        if subgraph.node != caller:
            continue
        fold = f"subgraph {graph.name} {subgraph.name}"
        calls = [node for node in subgraph.nodes if node.op.startswith("call_")]
        yield Item(calls or subgraph.nodes, subgraph.name, fold, fold in toggled)
        if fold in toggled:
            for node in subgraph.nodes:
                if node.op not in ("output", "get_attr"):
                    yield from _node_items(graph, node, toggled)


def _inputs(items: Sequence[Item], hidden: set[str]) -> list[list[int] | None]:
    """Return the rows that each row reads, in the order of the arguments, None for a heading."""
    row = {node.name: index for index, item in enumerate(items) if not item.opened for node in item.nodes}
    read: list[list[int] | None] = []
    for index, item in enumerate(items):
        if item.source:
            read.append(None)
            continue
        names = (name for node in item.nodes for name in node.inputs if name not in hidden)
        rows = dict.fromkeys(row[name] for name in names if row.get(name, index) != index)
        read.append(None if item.opened else list(rows))
    return read


@dataclass(frozen=True, slots=True)
class GraphOf:
    """A graph of any compiler stage."""

    name: str
    """Name of its folds."""
    nodes: Sequence[FxNode]
    link: Callable[[FxNode], Link]
    """Returns what a node stands for."""
    kernels: Kernels
    """Returns the kernels of a node."""
    hidden: Callable[[FxNode], bool]
    """Returns whether a node is in the fold of hidden nodes."""
    one: str
    """Name of one hidden node."""
    many: str
    """Name of several hidden nodes."""
    marks: Mapping[str, str]
    """Notes on nodes by name."""
    subgraphs: Sequence[Subgraph] = ()


def dynamo_graph(graph: GraphCaptured, known: Labels) -> GraphOf:
    """Return a Dynamo graph; its parameters are hidden, because their lines would cross every row."""

    def kernels(node: FxNode) -> Sequence[KernelLabel]:
        return known.of_node.get((graph.graph, node.name), ())

    def link(node: FxNode) -> Link:
        return node_link(graph.graph, node.name)

    return GraphOf(graph.graph, graph.nodes, link, kernels, is_parameter, "parameter", "parameters and buffers", {},
                   graph.subgraphs)  # fmt: skip


def below_dynamo(graph: AtenGraph, phases: Mapping[str, str], known: Labels, marks: Mapping[str, str]) -> GraphOf:
    """Return a graph of AOTAutograd or Inductor; `phases` has the phase of nodes that differs from the graph's."""

    def phase(node: FxNode) -> str:
        return phases.get(node.name, graph.phase)

    def kernels(node: FxNode) -> Sequence[KernelLabel]:
        return known.of_aten.get((graph.graph, phase(node), node.name), ())

    def link(node: FxNode) -> Link:
        return aten_link(graph.graph, phase(node), node.name)

    name = f"{graph.graph} {graph.stage} {graph.phase}"
    return GraphOf(name, graph.nodes, link, kernels, _is_input, "input", "inputs", marks, graph.subgraphs)


def is_parameter(node: FxNode) -> bool:
    """Return whether a node reads an attribute (`self.fc1.weight`), not an argument."""
    return node.op == "get_attr" or (node.op == "placeholder" and "." in node.target)


def _is_input(node: FxNode) -> bool:
    return node.op == "placeholder"


class ModuleRun(NamedTuple):
    """Nodes from index `first` up to, but not including, `last`; `module` is None if they have no fold."""

    module: str | None
    first: int
    last: int


def divide_by_module(nodes: Sequence[FxNode]) -> list[ModuleRun]:
    """Return all nodes of a graph, divided into modules."""
    if len(nodes) < FROM:
        return [ModuleRun(None, 0, len(nodes))]
    stretches: list[ModuleRun] = []
    for module, members in groupby(enumerate(nodes), key=lambda item: module_block(item[1].module)):
        indices = [index for index, _ in members]
        named = module if len(indices) >= SHORTEST else None
        stretches.append(ModuleRun(named, indices[0], indices[-1] + 1))
    return stretches


@lru_cache(maxsize=4096)
def module_block(module: str | None) -> str | None:
    """Return the part of a module path that gets a fold: up to the first number (`self.layers.3`), or two names."""
    if not module:
        return None
    parts = module.split(".")
    number = next((index for index, part in enumerate(parts) if part.isdigit()), None)
    return ".".join(parts[: 2 if number is None else number + 1])
