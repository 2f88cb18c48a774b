"""The op that makes a value which is not finite is found; infinities of masks are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tcexplore.numerics.graph_runs import output_nodes
from tcexplore.numerics.not_finite import first_origin, operands_at, spoiled_nodes, value_text


def run(program: Callable[..., Any], *inputs: torch.Tensor) -> tuple[Any, dict[Any, Any]]:
    """Return the first origin in a program, and the values of its nodes."""
    module = make_fx(program)(*inputs)
    values: dict[Any, Any] = {}
    given = iter(inputs)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "call_function":
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*args, **kwargs)
    spoiled = spoiled_nodes(output_nodes(module), values.get)
    return first_origin((node for node in module.graph.nodes if node in spoiled), values.get), values


X = torch.tensor([[1.0, 0.0, 2.0], [3.0, 4.0, 5.0]])
LARGE = 6e37
"""Times 5 it is finite in float32, times 6 it is not."""


def masked(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x == 0, -math.inf, x)


def softmax(x: torch.Tensor) -> torch.Tensor:
    exp = (x - x.amax(-1, keepdim=True)).exp()
    return exp / exp.sum(-1, keepdim=True)


ORIGINS: dict[str, tuple[Callable[..., Any], str, tuple[int, ...]]] = {
    "log of zero": (lambda x: torch.log(x * 2) + 1, "aten.log", (0, 1)),
    "overflow, then infinity by infinity": (lambda x: torch.exp(x * 100) / torch.exp(x * 100), "aten.exp", (0, 0)),
    "a row that is masked as a whole": (lambda x: softmax(masked(x * 0)), "aten.sub", (0, 0)),
    "square root of a negative value": (lambda x: torch.sqrt(x - 1).sum(), "aten.sqrt", (0, 1)),
    "sum that overflows": (lambda x: (x * LARGE).sum(-1), "aten.sum", (1,)),
}


@pytest.mark.parametrize("name", ORIGINS)
def test_the_op_that_makes_the_first_value_that_is_not_finite_is_found(name: str):
    program, op, index = ORIGINS[name]
    origin, _ = run(program, X)
    assert origin is not None
    assert (str(origin.node.target.overloadpacket), origin.element) == (op, index)


def test_a_mask_that_leaves_no_trace_in_the_results_is_no_origin():
    assert run(lambda x: softmax(masked(x)), X)[0] is None


def test_the_infinities_of_a_mask_that_is_returned_are_no_origin():
    assert run(lambda x: masked(x), X)[0] is None


def test_a_value_that_is_not_a_number_in_an_input_is_the_origin():
    origin, _ = run(lambda x: x * 2, torch.tensor([1.0, math.nan]))
    assert origin is not None
    assert (origin.node.op, origin.element) == ("placeholder", (1,))


def operands(program: Callable[..., Any], *inputs: torch.Tensor) -> list[str]:
    origin, values = run(program, *inputs)
    return [each.value for each in operands_at(origin.node, values, origin.element)]


def test_the_values_at_the_element_are_shown_and_of_many_their_range():
    assert operands(lambda x: (x + 1) / (x - x), X) == ["2", "0"]
    low, middle, high = (value_text(torch.tensor(factor) * LARGE) for factor in (2.0, 3.0, 5.0))
    assert operands(lambda x: (x * LARGE).sum(-1), X) == [f"3 values from {middle} to {high}"]
    assert operands(lambda x: (x * LARGE).sum(0, keepdim=True), X) == [f"2 values from {low} to {high}"]
    big = torch.full((2, 2), 1e30)
    assert operands(lambda a, b: a @ b, big, big.clone()) == ["2 values from 1.00000002e+30 to 1.00000002e+30"] * 2
