"""The nodes of the calls in a generated module, from the buffers that they read and write."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tcexplore.events import FxNode
from tcexplore.traces.wrapper_dataflow import Dataflow, FlowCall, FlowStep, match_nodes


def node(name: str, target: str, *inputs: str) -> FxNode:
    op = "call_function" if inputs else "placeholder"
    return FxNode(name=name, op=op, target=target, inputs=inputs)


def test_equal_calls_are_told_apart_by_what_runs_between_them():
    flow = Dataflow([
        node("x", "x"),
        node("mm", "aten.mm.default", "x", "x"),
        node("sort", "aten.sort.default", "mm"),
        node("mm_1", "aten.mm.default", "sort", "x"),
    ])  # fmt: skip
    for name in ("mm", "sort", "mm"):
        flow.library_call(name, f"aten.{name}", f"{name}(unknown, out=buf0)", ())
    assert flow.candidates(0) == flow.candidates(2) == ["mm", "mm_1"]
    flow.calls[1].node = "sort"
    flow._placed = None
    assert (flow.candidates(0), flow.candidates(2)) == (["mm"], ["mm_1"])


def test_the_calls_of_a_module_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch):
    def compare(*_: object) -> bool:
        raise AssertionError("that takes time with the square of their number")

    monkeypatch.setattr(FlowCall, "__eq__", compare)
    names = ["x", *(f"mm_{number}" for number in range(40))]
    nodes = [node("x", "x"), *(node(name, "aten.mm.default", before, "x") for before, name in pairwise(names))]
    buffers = ["x", *(f"buf{number}" for number in range(40))]
    steps = [FlowStep("call", f"mm({before}, x, out={after})", "mm") for before, after in pairwise(buffers)]
    flow = match_nodes(nodes, steps, {}, {"mm": "aten.mm"}, [()] * 40)
    assert [call.node for call in flow.calls] == names[1:]
