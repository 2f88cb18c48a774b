"""A decomposition or a pass that changes values is found in float64; equivalent nodes are not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._decomp import get_decompositions
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from tcexplore.capture.hooks import Hooks
from tcexplore.events import Event
from tcexplore.numerics.graph_stages import Decompositions, GraphCheck, WrongNode
from tcexplore.numerics.kernel_replay import GraphValues
from tcexplore.numerics.lowered_graphs import LoweredGraph, PassedGraph
from tcexplore.numerics.wrapper_values import WrapperCall

aten = torch.ops.aten
TABLE = get_decompositions([aten._softmax, aten.gelu])


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.nn.functional.gelu(x * 2), -1) * 0.5


def traced(table: dict[Any, Callable[..., Any]]) -> tuple[GraphModule, Decompositions]:
    missing: list[Event] = []
    hooks, decompositions = Hooks(missing.append), Decompositions()
    decompositions.install(hooks)
    try:
        module = make_fx(program, decomposition_table=table)(torch.randn(8, 16))
    finally:
        hooks.remove()
    assert not missing
    return module, decompositions


def check(before: GraphModule, after: GraphModule) -> GraphCheck:
    graph = LoweredGraph(graph="", phase="forward", module=after, wrapper=None, nodes={}, before=before)
    inputs = [torch.randn(8, 16, generator=torch.Generator().manual_seed(0))]
    return GraphCheck(graph, GraphValues(graph, WrapperCall(inputs)), lambda: True)


def test_torchs_own_decompositions_are_right():
    module, decompositions = traced(TABLE)
    assert {"aten._softmax", "aten.gelu"} <= {str(one.op.overloadpacket) for one in decompositions.all}
    assert check(module, module).wrong_decomposition(decompositions.all) is None


@pytest.mark.parametrize("factor", [1.001, 1.1])
def test_a_decomposition_that_is_a_little_off_is_named(factor: float):
    def gelu(x: torch.Tensor, **_: str) -> torch.Tensor:
        return x * 0.5 * factor * (1 + torch.erf(x * 0.7071067811865476))

    module, decompositions = traced({**TABLE, aten.gelu.default: gelu})
    wrong = check(module, module).wrong_decomposition(decompositions.all)
    assert wrong is not None
    assert (wrong.stage, wrong.culprit) == ("decomposition", "aten.gelu")


def test_a_decomposition_of_another_graph_with_equal_names_does_not_count():
    _, decompositions = traced(TABLE)
    others = [one._replace(graph="1/0") for one in decompositions.all]
    other = make_fx(lambda x: torch.tanh(x * 3).sum(-1) * 0.5)(torch.randn(8, 16))
    assert check(other, other).wrong_decomposition(others) is None
    same_id = [one._replace(graph="") for one in decompositions.all]
    assert check(other, other).wrong_decomposition(same_id) is None


def changed(change: Callable[[torch.fx.Node], None]) -> WrongNode | None:
    before, _ = traced(TABLE)
    after = GraphModule(before, copy.deepcopy(before.graph))
    for node in list(after.graph.nodes):
        change(node)
    return check(before, after).wrong_pass()


def test_a_pass_that_changes_a_factor_is_found_at_its_node():
    def change(node: torch.fx.Node) -> None:
        if node.target is aten.mul.Tensor and node.args[1] == 2:
            node.args = (node.args[0], 2.002)

    wrong = changed(change)
    assert wrong is not None
    assert (wrong.stage, wrong.op, wrong.node.name) == ("pass", "aten.mul", "mul")


def test_a_pass_that_keeps_the_values_is_not_accused():
    def change(node: torch.fx.Node) -> None:
        if node.target is aten.mul.Tensor:
            node.args = (node.args[1], node.args[0]) if isinstance(node.args[1], torch.fx.Node) else node.args
        if node.target is aten.mul.Tensor and node.args[1] == 2:
            node.target, node.args = aten.add.Tensor, (node.args[0], node.args[0])

    assert changed(change) is None


def test_what_is_left_where_terms_cancel_is_rounding():
    x = torch.randn(8, 16)
    before = make_fx(lambda x: (x - x.mean(-1, keepdim=True)).sum(-1))(x)

    def check_of(factor: float) -> WrongNode | None:
        after = make_fx(lambda x: x.sum(-1) - x.mean(-1) * factor)(x)
        for node in after.graph.nodes:
            node.name = f"{node.name}_after" if node.op == "call_function" else node.name
        return check(before, after).wrong_pass()

    assert check_of(16) is None
    assert check_of(16.016) is not None


def test_a_node_that_a_pass_on_the_joint_graph_puts_in_place_of_another_is_named_by_the_other():
    before, _ = traced(TABLE)
    after = GraphModule(before, copy.deepcopy(before.graph))
    gelu_input = next(node for node in after.graph.nodes if node.target is aten.mul.Tensor)
    with after.graph.inserting_before(gelu_input):
        zeros = after.graph.call_function(aten.full.default, ([8, 16], 0.0), {"dtype": torch.float32})
    gelu_input.replace_all_uses_with(zeros)
    after.graph.erase_node(gelu_input)
    graph = LoweredGraph(
        graph="", phase="forward", module=after, wrapper=None, nodes={}, before=after, joint=PassedGraph(before, after)
    )
    inputs = [torch.randn(8, 16, generator=torch.Generator().manual_seed(0))]
    wrong = GraphCheck(graph, GraphValues(graph, WrapperCall(inputs)), lambda: True).wrong_pass()
    assert wrong is not None
    assert (wrong.stage, wrong.op, wrong.node.name) == ("pass", "aten.mul", "mul")
    assert wrong.wrong.eq(0).all()
    assert torch.equal(wrong.right, inputs[0].double() * 2)


def test_a_joint_graph_runs_on_the_inputs_of_forward_and_backward():
    def joint(x: torch.Tensor, tangent: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sin(), tangent * x.cos()

    inputs = [torch.randn(8, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1)]
    before = make_fx(joint)(*inputs)
    after = GraphModule(before, copy.deepcopy(before.graph))
    last = next(node for node in reversed(after.graph.nodes) if node.target is aten.mul.Tensor)
    last.args = (last.args[0], 1.0)
    names = [node.name for node in before.graph.nodes if node.op == "placeholder"]
    passed = PassedGraph(before, after)

    def half(number: int, forward: GraphCheck | None = None) -> GraphCheck:
        module = make_fx(lambda _: _ * 1)(inputs[number])
        next(node for node in module.graph.nodes if node.op == "placeholder").name = names[number]
        graph = LoweredGraph(
            graph="", phase="backward" if number else "forward", module=module, wrapper=None, nodes={}, before=module,
            joint=passed,
        )  # fmt: skip
        return GraphCheck(graph, GraphValues(graph, WrapperCall([inputs[number]])), lambda: True, forward)

    forward = half(0)
    assert forward.wrong_pass() is None, "the tangent is not known yet"
    wrong = half(1, forward).wrong_pass()
    assert wrong is not None
    assert wrong.op == "aten.mul"
