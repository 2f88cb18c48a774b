"""The order of breaks and graphs."""

from __future__ import annotations

from tcexplore.documents.graph.graph_view import order_breaks
from tcexplore.events import GraphBreak, GraphCaptured, Location

FILE = "/home/ada/model.py"


def graph(compile_id: str, function: str, line: int) -> GraphCaptured:
    return GraphCaptured(graph=compile_id, ops=1, nodes=(), code="", frame=Location(FILE, line, function))


def broken(line: int, function: str, compile_id: str = "0/0") -> GraphBreak:
    return GraphBreak(graph=compile_id, registry_id=None, kind="k", reason="r", location=Location(FILE, line, function))


def test_break_follows_the_last_frame_that_begins_above_it():
    graphs = [graph("1/0", "inner", 12), graph("2/0", "inner", 14), graph("3/0", "inner", 18)]
    first, second = broken(14, "inner"), broken(18, "inner")
    assert order_breaks(graphs, [first, second]).after == {0: [first], 1: [second]}


def test_break_follows_the_first_compile_of_a_frame():
    graphs = [graph("0/0", "f", 1), graph("1/0", "f", 5), graph("0/1", "f", 1)]
    assert order_breaks(graphs, [broken(5, "f")]).after == {0: [broken(5, "f")]}


def test_break_precedes_the_graph_that_it_begins():
    assert order_breaks([graph("2/0", "f", 5)], [broken(5, "f")]).before == {0: [broken(5, "f")]}


def test_break_without_function_follows_its_compile_id():
    assert order_breaks([graph("0/0", "f", 1)], [broken(5, "")]).after == {0: [broken(5, "")]}


def test_break_without_graph_comes_last():
    assert order_breaks([graph("0/0", "f", 1)], [broken(5, "g")]).rest == [broken(5, "g")]
