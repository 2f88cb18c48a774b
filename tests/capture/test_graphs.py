from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional

from tcexplore.events import GraphCaptured
from tests.capture import breaking
from tests.capture.dynamo import at, broken, of, run

pytestmark = pytest.mark.torch


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor):
        h = self.norm(x)
        return self.linear(h) + x


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])

    def forward(self, x: torch.Tensor):
        for block in self.blocks:
            x = block(x)
        y = torch.cat([x, x], dim=0).transpose(0, 1)
        return functional.gelu(y[..., 1:3]).to(torch.bfloat16).sum()


@pytest.fixture(scope="module")
def graph() -> GraphCaptured:
    events = run(Model(), (torch.ones(4, 8),))
    assert broken(events) == []
    (found,) = of(GraphCaptured, events)
    return found


def nodes(graph: GraphCaptured, target: Any):
    return [node for node in graph.nodes if node.target == target]


def test_a_graph_has_an_id_a_frame_its_code_and_its_ops(graph: GraphCaptured):
    assert (graph.graph, graph.frame) == ("0/0", at(Model.forward, "def forward"))
    assert graph.ops == sum(node.op.startswith("call_") for node in graph.nodes) == 12
    assert "layer_norm" in graph.code


def test_ops_within_torch_nn_belong_to_the_persons_line_and_the_module(graph: GraphCaptured):
    first, second = nodes(graph, "torch.nn.functional.layer_norm")
    assert first.location == second.location == at(Block.forward, "self.norm(x)")
    assert first.stack == (at(Model.forward, "block(x)"), first.location)
    assert (first.module, second.module) == ("self.blocks.0.norm", "self.blocks.1.norm")
    assert first.args.endswith("(8,), l_self_modules_blocks_modules_0_modules_norm_parameters_weight_, "
                               "l_self_modules_blocks_modules_0_modules_norm_parameters_bias_, 1e-05")  # fmt: skip
    assert first.inputs[0] == "l_x_"


def test_inputs_go_by_the_persons_names(graph: GraphCaptured):
    inputs = {node.target: node for node in graph.nodes if node.op == "placeholder"}
    assert {"x", "self.blocks.0.norm.weight", "self.blocks.1.linear.bias"} <= set(inputs)
    assert inputs["x"].location is None
    assert (inputs["x"].dtype, inputs["x"].shape, inputs["x"].device) == ("f32", ("4", "8"), "cpu")


def test_values_show_dtype_shape_and_stride(graph: GraphCaptured):
    (turned,) = nodes(graph, "transpose")
    assert (turned.shape, turned.stride, turned.contiguous) == (("8", "8"), ("1", "8"), False)
    (sliced,) = nodes(graph, "getitem")
    assert sliced.args == f"{turned.name}, (..., 1:3)"
    (cast,) = nodes(graph, "to")
    assert (cast.dtype, cast.args) == ("bf16", "gelu, torch.bfloat16")
    (joined,) = nodes(graph, "torch.cat")
    assert joined.args.endswith("], dim=0")


def test_sizes_that_may_change_are_symbols_and_reading_them_adds_no_guard():
    events = run(Model(), (torch.ones(4, 8),), (torch.ones(5, 8),), dynamic=True)
    (found,) = of(GraphCaptured, events)
    (joined,) = nodes(found, "torch.cat")
    assert joined.shape[0].startswith("2*s")
    assert (joined.stride, joined.contiguous) == (("8", "1"), True)


def test_the_graph_behind_a_break_is_of_the_same_function_from_that_line_on():
    before, behind = of(GraphCaptured, run(breaking.prints))
    assert (before.graph, behind.graph) == ("0/0", "1/0")
    assert before.frame == at(breaking.prints, "def prints")
    assert behind.frame == at(breaking.prints, "print(")
