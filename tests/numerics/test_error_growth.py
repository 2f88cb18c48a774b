"""A kernel's local error is carried to the outputs and the gradients of its graph; modules that amplify are found."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.fx import GraphModule, Interpreter
from torch.fx.experimental.proxy_tensor import make_fx

from tcexplore.numerics.error_growth import ErrorGrowth, relative_error
from tcexplore.numerics.kernel_replay import GraphValues
from tcexplore.numerics.lowered_graphs import HeldNode, LoweredGraph
from tcexplore.numerics.wrapper_values import WrapperCall

aten = torch.ops.aten
X = torch.rand(16, 64, generator=torch.Generator().manual_seed(0)) + 0.5
WRONG = 1e-3
"""Relative error of a kernel that is wrong."""


class Compiled(Interpreter):
    """Runs a graph, and multiplies the values of one op by a factor."""

    def __init__(self, graph: GraphModule, op: Any, factor: float) -> None:
        super().__init__(graph)
        self.values: dict[str, torch.Tensor] = {}
        self._op, self._factor = op, factor

    def run_node(self, n: torch.fx.Node) -> Any:
        value = super().run_node(n)
        if n.target is self._op:
            value = value * self._factor
        if isinstance(value, torch.Tensor):
            self.values[n.name] = value
        return value


def traced(program: Callable[..., Any], *inputs: torch.Tensor) -> GraphModule:
    return make_fx(program)(*inputs)


def growth(
    module: GraphModule,
    inputs: Sequence[torch.Tensor],
    op: Any,
    factor: float = 1 + WRONG,
    forward: ErrorGrowth | None = None,
) -> ErrorGrowth:
    """Return the growth in a program whose op is wrong by a factor; each op is a kernel."""
    compiled = Compiled(module, op, factor)
    compiled.run(*inputs)
    nodes = {f"buf_{n.name}": HeldNode(n, None) for n in module.graph.nodes if n.op == "call_function"}
    graph = LoweredGraph(
        graph="0/0", phase="backward" if forward else "forward", module=module, wrapper=None, nodes=nodes
    )
    written = {f"buf_{name}": [value] for name, value in compiled.values.items()}
    return ErrorGrowth(GraphValues(graph, WrapperCall(list(inputs), written)), lambda: True, forward)


def node(module: GraphModule, target: Any) -> torch.fx.Node:
    return next(each for each in module.graph.nodes if each.target is target)


def test_a_relative_error_grows_by_the_exponent_of_a_power():
    module = traced(lambda x: torch.exp(x) ** 8, X)
    errors = growth(module, [X], aten.exp.default)
    share = errors.share([node(module, aten.exp.default)])
    assert share.local == pytest.approx(WRONG, rel=1e-2)
    assert share.output == pytest.approx(8 * WRONG, rel=2e-2)
    assert share.gradient is None
    (result,) = errors.results()
    assert result.compiled == pytest.approx(8 * WRONG, rel=2e-2)
    assert result.eager is not None
    assert result.eager < 1e-5


def test_an_error_that_cancels_does_not_arrive():
    module = traced(lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True), X)
    errors = growth(module, [X], aten.exp.default)
    first, second = (each for each in module.graph.nodes if each.target is aten.exp.default)
    both = errors.share([first, second])
    assert both.local == pytest.approx(WRONG, rel=1e-2)
    assert both.output is not None
    assert both.output < 1e-5
    alone = errors.share([first])
    assert alone.output == pytest.approx(WRONG, rel=1e-2)


def test_the_local_error_of_a_kernel_is_free_of_those_before_it():
    module = traced(lambda x: torch.tanh(torch.exp(x) * 1e3 - 1e3), X)
    errors = growth(module, [X], aten.exp.default)
    assert errors.local_error([node(module, aten.mul.Tensor)]) < 1e-6
    assert errors.local_error([node(module, aten.exp.default)]) > WRONG / 2


def test_an_error_of_the_forward_reaches_gradients_through_what_is_saved():
    forward = traced(lambda x: (torch.exp(x).sum(), torch.exp(x)), X)
    saved = [each for each in forward.graph.nodes if each.target is aten.exp.default][1]
    of_forward = growth(forward, [X], aten.exp.default)
    backward = traced(lambda saved, tangents: saved * saved * tangents, X, torch.ones(()))
    placeholders = [each for each in backward.graph.nodes if each.op == "placeholder"]
    for placeholder, name in zip(placeholders, (saved.name, "tangents_1"), strict=True):
        placeholder.name = name
    inputs = [torch.exp(X) * (1 + WRONG), torch.ones(())]
    of_backward = growth(backward, inputs, None, forward=of_forward)
    share = of_forward.share([saved])
    assert share.gradient == pytest.approx(2 * WRONG, rel=1e-2)
    assert share.output == 0, "the saved value is no output of the program"
    (gradient,) = of_backward.results()
    assert gradient.compiled == pytest.approx(2 * WRONG, rel=1e-2)


def test_a_module_that_subtracts_near_values_amplifies_and_one_that_scales_does_not():
    module = traced(lambda x: ((torch.exp(x) * 3) ** 2 - 1) * 0.5, torch.full_like(X, 0.01))
    inputs = [torch.full_like(X, -1.0986)]  # exp(x) * 3 is close to 1
    for each in module.graph.nodes:
        if each.op == "call_function":
            path = {aten.mul.Tensor: "scale", aten.exp.default: "exp"}.get(each.target, "difference")
            each.meta["nn_module_stack"] = {path: (f"L['self']._modules['{path}']", "Module")}
    errors = {each.path: each for each in growth(module, inputs, aten.exp.default).modules()}
    assert set(errors) == {"self.scale", "self.difference"}, "the inputs of exp have no error"
    scale, difference = errors["self.scale"], errors["self.difference"]
    assert difference.before == pytest.approx(WRONG, rel=2e-2)
    assert difference.passed_on / difference.before > 100
    assert scale.passed_on <= scale.before * 1.01


def test_stored_integers_are_no_errors():
    module = traced(lambda x: x.gather(0, torch.exp(x).argmax(0, keepdim=True)) * 2, X[:, 0])
    errors = growth(module, [X[:, 0]], aten.exp.default)
    assert errors.local_error([node(module, aten.argmax.default)]) == 0


def test_a_value_that_overflows_is_an_infinite_error_and_one_that_has_no_finite_value_is_none():
    exact = torch.tensor([1.0, 2.0, math.inf], dtype=torch.float64)
    assert relative_error(torch.tensor([1.0, math.inf, math.inf]), exact) == math.inf
    assert relative_error(torch.tensor([1.0, math.nan, math.nan]), exact) == math.inf
    assert relative_error(torch.tensor([1.0, 2.0, math.nan]), exact) == 0
    assert relative_error(torch.tensor([math.nan]), torch.tensor([math.nan])) is None
