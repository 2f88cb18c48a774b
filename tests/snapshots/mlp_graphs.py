"""The two Dynamo graphs of the perceptron, and the ATen graphs that Inductor compiled."""

from __future__ import annotations

from typing import Any

from tcexplore.events import AtenGraph, FxNode, GraphCaptured, Location
from tests.snapshots.mlp_source import at

F32 = "f32"
WIDE = ("64", "1024")

Shape = tuple[str, ...]


def strides(shape: Shape) -> Shape:
    """Return the strides of a contiguous tensor."""
    product, out = 1, ["1"] if shape else []
    for size in reversed(shape[1:]):
        product *= int(size)
        out.insert(0, str(product))
    return tuple(out)


def tensor(name: str, op: str, target: str, shape: Shape, where: Location | None, **more: Any) -> FxNode:
    """Return a node whose value is a contiguous f32 tensor on the CPU."""
    return FxNode(
        name=name, op=op, target=target, shape=shape, dtype=F32, device="cpu", location=where,
        stack=(where,) if where else (), stride=strides(shape), **more,
    )  # fmt: skip


def parameter(module: str, kind: str, shape: Shape) -> FxNode:
    """Return a placeholder for a module's parameter."""
    return tensor(f"l_self_modules_{module}_parameters_{kind}_", "placeholder", f"self.{module}.{kind}", shape, None)


def first_graph(graph: str = "0/0") -> GraphCaptured:
    """Return the graph before the print."""
    fc1, norm, scale = at("self.fc1(x)"), at("F.gelu"), at("h * 1.2")
    nodes = (
        parameter("fc1", "weight", ("1024", "512")),
        parameter("fc1", "bias", ("1024",)),
        tensor("l_x_", "placeholder", "x", ("64", "512"), None),
        parameter("norm", "weight", ("1024",)),
        parameter("norm", "bias", ("1024",)),
        tensor("h", "call_function", "torch.nn.functional.linear", WIDE, fc1, module="self.fc1",
               args="l_x_, l_self_modules_fc1_parameters_weight_, l_self_modules_fc1_parameters_bias_",
               inputs=("l_x_", "l_self_modules_fc1_parameters_weight_", "l_self_modules_fc1_parameters_bias_")),
        tensor("layer_norm", "call_function", "torch.nn.functional.layer_norm", WIDE, norm, module="self.norm",
               args="h, (1024,), l_self_modules_norm_parameters_weight_, l_self_modules_norm_parameters_bias_, 1e-05",
               inputs=("h", "l_self_modules_norm_parameters_weight_", "l_self_modules_norm_parameters_bias_")),
        tensor("h_1", "call_function", "torch.nn.functional.gelu", WIDE, norm, args="layer_norm",
               inputs=("layer_norm",)),
        tensor("h_2", "call_function", "mul", WIDE, scale, args="h_1, 1.2", inputs=("h_1",)),
        tensor("mean", "call_method", "mean", (), at("print("), args="h_2", inputs=("h_2",)),
        FxNode(name="output", op="output", target="output", args="(mean, h_2)", inputs=("mean", "h_2")),
    )  # fmt: skip
    return GraphCaptured(graph=graph, ops=5, nodes=nodes, code=_FIRST_CODE, frame=at("def forward"))


def second_graph(graph: str = "1/0") -> GraphCaptured:
    """Return the graph after the print."""
    fc2 = at("self.fc2(h)")
    nodes = (
        parameter("fc2", "weight", ("512", "1024")),
        parameter("fc2", "bias", ("512",)),
        tensor("l_h_", "placeholder", "h", WIDE, None),
        tensor("linear", "call_function", "torch.nn.functional.linear", ("64", "512"), fc2, module="self.fc2",
               args="l_h_, l_self_modules_fc2_parameters_weight_, l_self_modules_fc2_parameters_bias_",
               inputs=("l_h_", "l_self_modules_fc2_parameters_weight_", "l_self_modules_fc2_parameters_bias_")),
        tensor("relu", "call_method", "relu", ("64", "512"), fc2, args="linear", inputs=("linear",)),
        FxNode(name="output", op="output", target="output", args="(relu,)", inputs=("relu",)),
    )  # fmt: skip
    frame = Location(fc2.file, at("print(").line, "forward")
    return GraphCaptured(graph=graph, ops=2, nodes=nodes, code=_SECOND_CODE, frame=frame)


def post_grad() -> tuple[AtenGraph, AtenGraph]:
    """Return the post-grad graphs of both."""
    fc1, norm, scale = at("self.fc1(x)"), at("F.gelu"), at("h * 1.2")

    def aten(name: str, target: str, where: Location, *origins: str) -> FxNode:
        return tensor(name, "call_function", target, WIDE, where, origins=origins)

    first = (
        aten("addmm", "aten.addmm.default", fc1, "h"),
        aten("var_mean", "aten.var_mean.correction", norm, "layer_norm"),
        *(aten(name, target, norm, "layer_norm") for name, target in (
            ("sub", "aten.sub.Tensor"), ("add", "aten.add.Tensor"), ("rsqrt", "aten.rsqrt.default"),
            ("mul", "aten.mul.Tensor"), ("mul_1", "aten.mul.Tensor"), ("add_1", "aten.add.Tensor"))),
        *(aten(name, target, norm, "h_1") for name, target in (
            ("mul_2", "aten.mul.Tensor"), ("mul_3", "aten.mul.Tensor"), ("erf", "aten.erf.default"),
            ("add_2", "aten.add.Tensor"), ("mul_4", "aten.mul.Tensor"))),
        aten("mul_5", "aten.mul.Tensor", scale, "h_2"),
        aten("mean", "aten.mean.default", at("print("), "mean"),
    )  # fmt: skip
    fc2 = at("self.fc2(h)")
    second = (aten("addmm", "aten.addmm.default", fc2, "linear"), aten("relu", "aten.relu.default", fc2, "relu"))
    return (
        AtenGraph(graph="0/0", stage="post_grad", phase="forward", nodes=first),
        AtenGraph(graph="1/0", stage="post_grad", phase="forward", nodes=second),
    )


_FIRST_CODE = """class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[64, 512][512, 1]cpu", ...):
        l_x_ = L_x_

        # File: samples/mlp.py:22 in forward, code: h = self.fc1(x)
        h: "f32[64, 1024][1024, 1]cpu" = torch._C._nn.linear(l_x_, l_self_modules_fc1_parameters_weight_)

        # File: samples/mlp.py:23 in forward, code: h = F.gelu(self.norm(h))
        layer_norm: "f32[64, 1024][1024, 1]cpu" = torch.nn.functional.layer_norm(h, (1024,), ..., 1e-05);  h = None
        h_1: "f32[64, 1024][1024, 1]cpu" = torch._C._nn.gelu(layer_norm);  layer_norm = None

        # File: samples/mlp.py:24 in forward, code: h = h * 1.2
        h_2: "f32[64, 1024][1024, 1]cpu" = h_1 * 1.2;  h_1 = None

        # File: samples/mlp.py:25 in forward, code: print("mean", h.mean())
        mean: "f32[][]cpu" = h_2.mean()
        return (mean, h_2)
"""

_SECOND_CODE = """class GraphModule(torch.nn.Module):
    def forward(self, L_h_: "f32[64, 1024][1024, 1]cpu", ...):
        l_h_ = L_h_

        # File: samples/mlp.py:26 in forward, code: return self.fc2(h).relu()
        linear: "f32[64, 512][512, 1]cpu" = torch._C._nn.linear(l_h_, l_self_modules_fc2_parameters_weight_)
        relu: "f32[64, 512][512, 1]cpu" = linear.relu();  linear = None
        return (relu,)
"""
