"""Subgraphs are folds below the node that runs them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore.documents.graph.graph_view import graph_document
from tcexplore.events import FxNode, GraphCaptured, Job, Location, Subgraph
from tcexplore.session.snapshot import start_snapshot

LINE = Location("/f.py", 3, "forward")


def node(name: str, op: str, *inputs: str, target: str = "") -> FxNode:
    return FxNode(name=name, op=op, target=target or name, inputs=inputs, location=LINE)


NESTED = Subgraph(
    name="cond_true_0.cond_true_1",
    node="cond_true_0.cond_1",
    nodes=(node("cond_true_0.cond_true_1.out", "output"),),
)
BRANCH = Subgraph(
    name="cond_true_0",
    node="cond",
    nodes=(
        node("cond_true_0.l_x", "placeholder", target="x"),
        replace(node("cond_true_0.sin", "call_method", "cond_true_0.l_x", target="sin"), args="l_x"),
        node("cond_true_0.cond_true_1", "get_attr"),
        node("cond_true_0.cond_1", "call_function", "cond_true_0.sin", target="cond"),
        node("cond_true_0.out", "output"),
    ),
)
GRAPH = GraphCaptured(
    graph="0/0",
    ops=1,
    nodes=(
        node("x", "placeholder"),
        node("cond_true_0", "get_attr"),
        node("cond", "call_function", "x", "cond_true_0"),
        node("out", "output", "cond"),
    ),
    code="",
    subgraphs=(BRANCH, NESTED),
)


def rows(*toggled: str) -> list[str]:
    snapshot = start_snapshot(Job(run=0, file="/f.py", source="")).apply(GRAPH)
    document = graph_document(snapshot, frozenset(toggled), width=120)
    return [document.row(index).text for index in range(len(document))]


def test_a_subgraph_is_folded_below_its_node():
    folds = [row for row in rows() if "▸" in row]
    assert len(folds) == 1
    assert "cond_true_0  2 nodes" in folds[0]
    assert not any("sin" in row for row in rows())


def test_an_open_subgraph_shows_its_nodes_and_nested_subgraphs():
    opened = rows("subgraph 0/0 cond_true_0")
    assert any("cond_true_0.sin" in row and "sin(x)" in row for row in opened)
    assert any("▸ cond_true_0.cond_true_1" in row for row in opened)


def test_the_attribute_of_a_subgraph_is_no_parameter():
    assert not any("parameter" in row for row in rows())


@pytest.mark.parametrize(
    ("targets", "name"),
    [
        (["self.fc.weight"], "1 parameter"),
        (["self.fc.weight", "self.fc.bias"], "2 parameters and buffers"),
        (["x.size()[0]", "x.stride()[1]"], "2 sizes"),
        (["self.fc.weight", "self.fc.bias", "x.size()[0]"], "2 parameters and buffers, 1 size"),
    ],
)
def test_the_fold_of_what_a_graph_reads_tells_sizes_from_parameters(targets: list[str], name: str) -> None:
    nodes = tuple(node(f"n{number}", "placeholder", target=target) for number, target in enumerate(targets))
    snapshot = start_snapshot(Job(run=1, file="/f.py", source=""))
    captured = GraphCaptured(run=1, graph="0/0", frame=LINE, ops=0, nodes=nodes, code="")
    document = graph_document(snapshot.apply(captured))
    folds = [document.row(index).text.strip(" ▸").split("  ")[0] for index in range(len(document))]
    assert name in folds


@pytest.mark.parametrize(("width", "shape"), [(60, "f32[4, 4, 128, 64]"), (30, "f32[4,4,128,64]")])
def test_a_shape_without_room_loses_its_blanks_before_a_size(width: int, shape: str):
    attention = replace(node("attention", "call_function", "x"), dtype="f32", shape=("4", "4", "128", "64"))
    graph = replace(GRAPH, nodes=(node("x", "placeholder"), attention), subgraphs=())
    snapshot = start_snapshot(Job(run=0, file="/f.py", source="")).apply(graph)
    document = graph_document(snapshot, frozenset(), width=width)
    row = next(document.row(index).text for index in range(len(document)) if "atten" in document.row(index).text)
    assert shape in row[:width]
