"""What the rows of one graph stand for, and the gutter beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from tcexplore.documents.graph.graph_gutter import Drawn, draw
from tcexplore.documents.labels import KernelLabel, Labels
from tcexplore.events import AtenGraph, FxNode, GraphCaptured
from tcexplore.session.links import Link, aten_link, node_link

FROM = 200
"""Nodes from which on a graph is cut; each stretch is folded at first."""

SHORTEST = 4
"""Nodes of a stretch that is worth a fold."""


Kernels = Callable[[FxNode], Sequence[KernelLabel]]


GLYPHS = {"placeholder": "●", "get_attr": "●", "output": "◎"}
CALL, FOLDED = "○", "◍"


class Item(NamedTuple):
    """One row: a single node, or the stretch of a module (`module` set): folded, or the heading of its open rows."""

    nodes: Sequence[FxNode]
    module: str | None = None
    fold: str | None = None
    opened: bool = False

    @property
    def glyph(self) -> str:
        return FOLDED if self.module else GLYPHS.get(self.nodes[0].op, CALL)


class Laid(NamedTuple):
    """A graph's hidden nodes, its rows and their gutter."""

    hidden: tuple[FxNode, ...]
    items: list[Item]
    gutter: list[Drawn]


def lay_out(graph: GraphOf, toggled: frozenset[str], columns: int) -> Laid:
    """The rows of a graph with these folds toggled, the gutter at most `columns` lines wide."""
    hidden = tuple(node for node in graph.nodes if graph.hidden(node))
    rest = [node for node in graph.nodes if not graph.hidden(node)]
    items = list(_items(graph.name, rest, toggled))
    inputs = _inputs(items, {node.name for node in hidden})
    return Laid(hidden, items, draw(inputs, columns, [item.glyph for item in items]))


def _items(graph: str, nodes: Sequence[FxNode], toggled: frozenset[str]) -> Iterable[Item]:
    for run in runs(nodes):
        members = nodes[run.first : run.last]
        if run.module is not None:
            fold = f"module {graph} {members[0].name}"
            yield Item(members, run.module, fold, fold in toggled)
            if fold not in toggled:
                continue
        yield from (Item((node,)) for node in members)


def _inputs(items: Sequence[Item], hidden: set[str]) -> list[list[int] | None]:
    """For each row the rows that it reads; None for a heading, which reads nothing. Order is that of the arguments."""
    row = {node.name: index for index, item in enumerate(items) if not item.opened for node in item.nodes}
    read: list[list[int] | None] = []
    for index, item in enumerate(items):
        names = (name for node in item.nodes for name in node.inputs if name not in hidden)
        rows = dict.fromkeys(row[name] for name in names if row.get(name, index) != index)
        read.append(None if item.opened else list(rows))
    return read


@dataclass(frozen=True, slots=True)
class GraphOf:
    """One graph: `name` tells its folds from those of others, `link` and `kernels` say what a node stands for and where
    it ended. Nodes that `hidden` picks are no rows but stand behind one fold, `one` or `many` of them in words.
    `marks` has words for single nodes."""

    name: str
    nodes: Sequence[FxNode]
    link: Callable[[FxNode], Link]
    kernels: Kernels
    hidden: Callable[[FxNode], bool]
    one: str
    many: str
    marks: Mapping[str, str]


def dynamo_graph(graph: GraphCaptured, known: Labels) -> GraphOf:
    """A graph as Dynamo captured it; its parameters are hidden: their lines would cross every row."""

    def kernels(node: FxNode) -> Sequence[KernelLabel]:
        return known.of_node.get((graph.graph, node.name), ())

    def link(node: FxNode) -> Link:
        return node_link(graph.graph, node.name)

    return GraphOf(graph.graph, graph.nodes, link, kernels, is_parameter, "parameter", "parameters and buffers", {})


def below_dynamo(graph: AtenGraph, phases: Mapping[str, str], known: Labels, marks: Mapping[str, str]) -> GraphOf:
    """A graph of AOTAutograd's or Inductor's. `phases` has the phase of nodes that are not of the graph's own."""

    def phase(node: FxNode) -> str:
        return phases.get(node.name, graph.phase)

    def kernels(node: FxNode) -> Sequence[KernelLabel]:
        return known.of_aten.get((graph.graph, phase(node), node.name), ())

    def link(node: FxNode) -> Link:
        return aten_link(graph.graph, phase(node), node.name)

    name = f"{graph.graph} {graph.stage} {graph.phase}"
    return GraphOf(name, graph.nodes, link, kernels, _is_input, "input", "inputs", marks)


def is_parameter(node: FxNode) -> bool:
    """Whether a node brings in a tensor that is an attribute of something (`self.fc1.weight`), not an argument."""
    return node.op == "get_attr" or (node.op == "placeholder" and "." in node.target)


def _is_input(node: FxNode) -> bool:
    return node.op == "placeholder"


class ModuleRun(NamedTuple):
    """Nodes from index `first` up to `last` (not included); `module` is None for those that are not folded together."""

    module: str | None
    first: int
    last: int


def runs(nodes: Sequence[FxNode]) -> list[ModuleRun]:
    """The stretches of a graph's nodes, in order, all nodes covered."""
    if len(nodes) < FROM:
        return [ModuleRun(None, 0, len(nodes))]
    stretches: list[ModuleRun] = []
    for module, members in groupby(enumerate(nodes), key=lambda item: block(item[1].module)):
        indices = [index for index, _ in members]
        named = module if len(indices) >= SHORTEST else None
        stretches.append(ModuleRun(named, indices[0], indices[-1] + 1))
    return stretches


@lru_cache(maxsize=4096)
def block(module: str | None) -> str | None:
    """The part of a module's path that is worth a fold: up to its first number (`self.layers.3`), else two names."""
    if not module:
        return None
    parts = module.split(".")
    number = next((index for index, part in enumerate(parts) if part.isdigit()), None)
    return ".".join(parts[: 2 if number is None else number + 1])
