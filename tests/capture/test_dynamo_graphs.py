from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional

from tcexplore.events import GraphCaptured
from tests.capture import break_programs
from tests.capture.dynamo_capture import capture, hook_failures, location_of, select

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
    events = capture(Model(), (torch.ones(4, 8),))
    assert hook_failures(events) == []
    (captured,) = select(GraphCaptured, events)
    return captured


def nodes(graph: GraphCaptured, target: Any):
    return [node for node in graph.nodes if node.target == target]


def test_a_graph_has_id_frame_code_and_ops(graph: GraphCaptured):
    assert (graph.graph, graph.frame) == ("0/0", location_of(Model.forward, "def forward"))
    assert graph.ops == sum(node.op.startswith("call_") for node in graph.nodes) == 12
    assert "layer_norm" in graph.code


def test_ops_within_torch_nn_have_the_users_line_and_the_module(graph: GraphCaptured):
    first, second = nodes(graph, "torch.nn.functional.layer_norm")
    assert first.location == second.location == location_of(Block.forward, "self.norm(x)")
    assert first.stack == (location_of(Model.forward, "block(x)"), first.location)
    assert (first.module, second.module) == ("self.blocks.0.norm", "self.blocks.1.norm")
    assert first.args.endswith("(8,), l_self_modules_blocks_modules_0_modules_norm_parameters_weight_, "
                               "l_self_modules_blocks_modules_0_modules_norm_parameters_bias_, 1e-05")  # fmt: skip
    assert first.inputs[0] == "l_x_"


def test_inputs_have_the_users_names(graph: GraphCaptured):
    inputs = {node.target: node for node in graph.nodes if node.op == "placeholder"}
    assert {"x", "self.blocks.0.norm.weight", "self.blocks.1.linear.bias"} <= set(inputs)
    assert inputs["x"].location is None
    assert (inputs["x"].dtype, inputs["x"].shape, inputs["x"].device) == ("f32", ("4", "8"), "cpu")


def test_values_have_dtype_shape_and_stride(graph: GraphCaptured):
    (turned,) = nodes(graph, "transpose")
    assert (turned.shape, turned.stride, turned.contiguous) == (("8", "8"), ("1", "8"), False)
    (sliced,) = nodes(graph, "getitem")
    assert sliced.args == f"{turned.name}, (..., 1:3)"
    (cast,) = nodes(graph, "to")
    assert (cast.dtype, cast.args) == ("bf16", "gelu, torch.bfloat16")
    (joined,) = nodes(graph, "torch.cat")
    assert joined.args.endswith("], dim=0")


def test_dynamic_sizes_are_symbols_and_reading_them_adds_no_guard():
    events = capture(Model(), (torch.ones(4, 8),), (torch.ones(5, 8),), dynamic=True)
    (captured,) = select(GraphCaptured, events)
    (joined,) = nodes(captured, "torch.cat")
    assert joined.shape[0].startswith("2*s")
    assert (joined.stride, joined.contiguous) == (("8", "1"), True)


def test_the_graph_after_a_break_has_the_resumed_line_of_the_same_function():
    before, after = select(GraphCaptured, capture(break_programs.prints))
    assert (before.graph, after.graph) == ("0/0", "1/0")
    assert before.frame == location_of(break_programs.prints, "def prints")
    assert after.frame == location_of(break_programs.prints, "print(")
