"""Bounds hold for eager's own rounding and for any order of summation, and not for an error of a tenth of a percent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tcexplore.events import KernelCall
from tcexplore.numerics.comparison import compare
from tcexplore.numerics.kernel_replay import GraphValues
from tcexplore.numerics.lowered_graphs import BufferChange, HeldNode, LoweredGraph
from tcexplore.numerics.replayed_values import Value, unit
from tcexplore.numerics.wrapper_values import WrapperCall, WrittenValue

aten = torch.ops.aten


def replayed(function: Callable[..., Any], *inputs: torch.Tensor) -> tuple[Value, Any]:
    """Return the replay of a function's last op, and the function's result."""
    module = make_fx(function)(*inputs)
    graph = LoweredGraph(graph="0/0", phase="forward", module=module, wrapper=None, nodes={})
    values = GraphValues(graph, WrapperCall(list(inputs)))
    output = next(node for node in module.graph.nodes if node.op == "output").args[0]
    replay = values.replay([output])
    assert not replay.failed
    return replay.values[output], function(*inputs)


PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "polynomial": lambda x: (x * 3 + 1) * x - 0.25,
    "functions": lambda x: torch.exp(torch.tanh(x) * 2) / (1 + torch.sigmoid(x)),
    "erf": lambda x: x * 0.5 * (1 + torch.erf(x * 0.7071)),
    "norm": lambda x: (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True) + 1e-5),
    "softmax": lambda x: (
        (x - x.amax(-1, keepdim=True)).exp() / (x - x.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)
    ),
    "log": lambda x: torch.log(x * x + 1).sqrt(),
    "product": lambda x: x @ x.T,
    "moved": lambda x: torch.cat([x.flip(-1), x * 2], 1)[:, 3:],
    "gather": lambda x: (x * 1.5).gather(1, torch.zeros(x.shape, dtype=torch.int64)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_rounding_of_eager_is_within_the_bound_and_a_tenth_of_a_percent_is_not(name: str):
    x = torch.randn(64, 128, generator=torch.Generator().manual_seed(0))
    value, result = replayed(PROGRAMS[name], x)
    assert not compare(result, value).wrong
    assert compare(result, value).share is not None
    assert compare(result * 1.001, value).wrong


def test_intermediates_in_float32_are_within_the_bound_of_bfloat16():
    x = torch.randn(64, 128, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    value, _ = replayed(PROGRAMS["functions"], x)
    fused = PROGRAMS["functions"](x.float()).to(torch.bfloat16)
    assert not compare(fused, value).wrong
    assert compare((fused.float() * 1.02).to(torch.bfloat16), value).wrong


@pytest.mark.parametrize("terms", ["random", "equal"])
def test_any_order_of_summation_is_within_the_bound(terms: str):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(8, 4096, generator=generator) if terms == "random" else torch.full((8, 4096), 0.1)
    value, result = replayed(lambda x: x.sum(-1), x)
    orders = (result, x.cumsum(-1)[:, -1], x.flip(-1).cumsum(-1)[:, -1], x.reshape(8, 64, 64).sum(1).cumsum(-1)[:, -1])
    for order in orders:
        assert not compare(order, value).wrong
    assert compare(result + x.abs().sum(-1) * 1e-4, value).wrong


def test_a_comparison_close_to_its_threshold_proves_nothing():
    x = torch.cat([torch.linspace(0, 2, 1001), torch.ones(4)])
    value, result = replayed(lambda x: torch.exp(torch.log(x + 1)) > 2, x)
    close = (x - 1).abs() < unit(torch.float32)
    assert bool(close.any())
    assert not compare(result ^ close, value).wrong
    assert compare(result ^ ((x - 0.5).abs() < 1e-3), value).wrong


def test_a_value_that_cancels_is_compared_by_the_size_of_the_others():
    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(0))
    value, result = replayed(lambda x: torch.cat([x.sum(-1) - x.flip(-1).sum(-1), x[:, 0]]), x)
    result[:64] += 1e-6
    compared = compare(result, value)
    assert not compared.wrong
    assert compared.error is not None
    assert compared.ulps is not None
    assert compared.error < 1e-5
    assert compared.ulps < 100


def test_a_value_that_is_not_finite_is_wrong_where_eager_is_finite():
    value, result = replayed(lambda x: torch.exp(x), torch.linspace(0, 1, 64))
    broken = result.clone()
    broken[5] = float("nan")
    assert compare(broken, value).wrong
    assert compare(broken, value).not_finite


def test_an_op_that_does_not_run_alone_is_not_judged():
    module = make_fx(lambda x: torch.rand_like(x) + x)(torch.ones(4))
    graph = LoweredGraph(graph="0/0", phase="forward", module=module, wrapper=None, nodes={})
    output = next(node for node in module.graph.nodes if node.op == "output").args[0]
    assert GraphValues(graph, WrapperCall([torch.ones(4)])).replay([output]).failed == {
        node: "random numbers" for node in module.graph.nodes if node.op == "call_function"
    }


def traced(function: Callable[..., Any], *inputs: torch.Tensor) -> tuple[Any, dict[Any, Any]]:
    """Return the module of a function, and its nodes by op."""
    module = make_fx(function)(*inputs)
    return module, {node.target: node for node in module.graph.nodes if node.op == "call_function"}


def test_what_reads_a_value_after_a_copy_into_its_view_is_not_judged():
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        copied = x.clone()
        copied.diagonal().copy_(y)
        return copied.sum()

    inputs = [torch.ones(4, 4), torch.zeros(4)]
    module, nodes = traced(program, *inputs)
    graph = LoweredGraph(graph="0/0", phase="forward", module=module, wrapper=None, nodes={})
    total = nodes[aten.sum.default]
    assert GraphValues(graph, WrapperCall(inputs)).replay([total]).failed[total] == "a later op changes it in place"


def kernel_call(order: int, buffers: tuple[str, ...], nodes: tuple[str, ...] = ()) -> KernelCall:
    return KernelCall(order=order, buffers=buffers, nodes=nodes)


def filled_and_added(kernels: list[tuple[str, ...]], values: list[torch.Tensor]) -> tuple[GraphValues, dict[Any, Any]]:
    """Return the values of a buffer that kernels fill and add to in place."""

    def program(i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(3).index_put_((i,), x, accumulate=True)

    inputs = [torch.tensor([0, 2, 2]), torch.ones(3)]
    module, nodes = traced(program, *inputs)
    zeros, put = nodes[aten.zeros.default], nodes[aten.index_put_.default]
    graph = LoweredGraph(
        graph="0/0", phase="forward", module=module, wrapper=None, nodes={"buf0": HeldNode(zeros, None)},
        changes={"buf0": (BufferChange("buf1", HeldNode(put, None)),)},
    )  # fmt: skip
    calls = [kernel_call(order, buffers) for order, buffers in enumerate(kernels)]
    return GraphValues(graph, WrapperCall(inputs, {"buf0": values}), calls), {"zeros": zeros, "put": put}


def test_a_buffer_that_one_kernel_fills_and_changes_has_the_value_of_the_change():
    summed = torch.tensor([1.0, 0.0, 2.0])
    values, nodes = filled_and_added([("buf0", "buf1")], [summed])
    assert values.held == {"buf1": nodes["put"]}
    assert nodes["zeros"] not in values.real
    assert not compare(summed, values.replay([nodes["put"]]).values[nodes["put"]]).wrong
    assert compare(summed + 0.01, values.replay([nodes["put"]]).values[nodes["put"]]).wrong


def test_a_buffer_that_a_second_kernel_changes_has_both_values():
    both = [torch.zeros(3), torch.tensor([1.0, 0.0, 2.0])]
    values, nodes = filled_and_added([("buf0",), ("buf1",)], both)
    assert values.held == {"buf0": nodes["zeros"], "buf1": nodes["put"]}
    unchanged, _ = filled_and_added([("buf0",), ("buf1",)], both[:1])
    assert unchanged.held == {}, "which kernel wrote the one value is not known"


@pytest.mark.parametrize("reads", [False, True])
def test_a_kernel_may_compute_again_what_another_kernel_stores(reads: bool):
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x + y).sum(0)

    inputs = [torch.randn(2, 256, generator=torch.Generator().manual_seed(seed)).bfloat16() for seed in (0, 1)]
    module, nodes = traced(program, *inputs)
    add, total = nodes[aten.add.Tensor], nodes[aten.sum.dim_IntList]
    graph = LoweredGraph(
        graph="0/0", phase="forward", module=module, wrapper=None,
        nodes={"buf0": HeldNode(add, None), "buf1": HeldNode(total, None)},
    )  # fmt: skip
    # The second kernel sums what is not rounded.
    stored, summed = inputs[0] + inputs[1], (inputs[0].float() + inputs[1].float()).sum(0).bfloat16()
    call = WrapperCall(
        inputs, {"buf0": [stored], "buf1": [summed]},
        statements={("buf0", 0): WrittenValue("buf0", 0), ("buf1", 1): WrittenValue("buf1", 0)},
        named=(frozenset({"buf0"}), frozenset({"buf0", "buf1"} if reads else {"buf1"})),
    )  # fmt: skip
    calls = [kernel_call(0, ("buf0",), (add.name,)), kernel_call(1, ("buf1",), (add.name, total.name))]
    replay = GraphValues(graph, call, calls).replay([total])
    assert compare(summed, replay.values[total]).wrong is reads
    assert (add in replay.inputs) is reads


@pytest.mark.parametrize("gap", [0.1, 1e-9])
def test_the_index_of_the_largest_value_is_undecided_only_where_two_are_close(gap: float):
    x = torch.tensor([[0.3, 0.9, 0.9 + gap], [0.1, 0.2, 0.3]], dtype=torch.float64).to(torch.float32)
    value, result = replayed(lambda x: torch.sin(x).argmax(-1), x)
    assert value.bound.tolist() == [gap < 1e-3, False]
    assert compare(torch.tensor([0, 0]), value).wrong
    assert not compare(result, value).wrong


def test_a_sum_over_indices_in_bfloat16_rounds_after_each_term():
    x, i = torch.full((64, 1), 1.01, dtype=torch.bfloat16), torch.zeros(64, dtype=torch.long)
    value, result = replayed(lambda x, i: torch.zeros(2, 1, dtype=x.dtype).index_put((i,), x, True), x, i)
    rounded = torch.zeros(2, 1, dtype=torch.bfloat16)
    for term in x:
        rounded[0] += term
    assert not compare(rounded, value).wrong
    assert not compare(result, value).wrong
    assert compare(rounded * 2, value).wrong
