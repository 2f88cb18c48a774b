"""What the rows of a graph rest on, whichever compiler stage the graph is of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tcexplore.documents.labels import KernelLabel, Labels
from tcexplore.events import AtenGraph, FxNode, GraphCaptured
from tcexplore.session.links import Link, aten_link, node_link

Kernels = Callable[[FxNode], Sequence[KernelLabel]]


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
