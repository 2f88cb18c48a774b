"""Fused attention in float64, against the kernel for a CPU, which runs in it."""

from __future__ import annotations

import pytest
import torch

from tcexplore.numerics.exact_attention import LOGSUMEXP_ROWS
from tcexplore.numerics.kernel_replay import is_random
from tcexplore.numerics.replayed_values import run_exactly

aten = torch.ops.aten
ON_CPU = aten._scaled_dot_product_flash_attention_for_cpu.default
ON_CPU_BACKWARD = aten._scaled_dot_product_flash_attention_for_cpu_backward.default

pytestmark = pytest.mark.torch


@pytest.fixture(name="inputs")
def random_inputs() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, 4, 24, 16, dtype=torch.float64) for _ in range(3)]


@pytest.mark.parametrize("causal", [False, True])
def test_the_result_and_the_logsumexp_are_those_of_attention(inputs: list[torch.Tensor], causal: bool):
    out, logsumexp = ON_CPU(*inputs, 0.0, causal)
    flash = run_exactly(aten._scaled_dot_product_flash_attention.default, (*inputs, 0.0, causal), {})
    efficient = run_exactly(
        aten._scaled_dot_product_efficient_attention.default, (*inputs, None, True, 0.0, causal), {}
    )
    cudnn = run_exactly(aten._scaled_dot_product_cudnn_attention.default, (*inputs, None, True, 0.0, causal), {})

    for results in (flash, efficient, cudnn):
        torch.testing.assert_close(results[0], out)
        assert set(results[2:]) == {None}
    torch.testing.assert_close(flash[1], logsumexp)
    assert efficient[1].shape[-1] == LOGSUMEXP_ROWS
    torch.testing.assert_close(efficient[1][..., :24], logsumexp)
    torch.testing.assert_close(cudnn[1].squeeze(-1), logsumexp)


def test_the_gradients_are_those_of_attention(inputs: list[torch.Tensor]):
    out, logsumexp = ON_CPU(*inputs, 0.0, True, scale=0.5)
    gradient, none = torch.randn_like(out), torch.empty(0)
    expected = ON_CPU_BACKWARD(gradient, *inputs, out, logsumexp, 0.0, True, scale=0.5)
    flash = run_exactly(
        aten._scaled_dot_product_flash_attention_backward.default,
        (gradient, *inputs, out, logsumexp, none, none, 24, 24, 0.0, True, none, none),
        {"scale": 0.5},
    )
    efficient = run_exactly(
        aten._scaled_dot_product_efficient_attention_backward.default,
        (gradient, *inputs, None, out, logsumexp, none, none, 0.0, [True, True, True, False], True),
        {"scale": 0.5},
    )

    for gradients in (flash, efficient):
        for given, right in zip(gradients, expected, strict=False):
            torch.testing.assert_close(given, right)


@pytest.mark.parametrize(("dropout", "draws"), [(0.0, False), (0.1, True)])
def test_attention_draws_random_numbers_only_if_it_drops_elements(dropout: float, draws: bool):
    graph = torch.fx.Graph()
    inputs = [graph.placeholder(name) for name in "qkv"]
    for op in (ON_CPU, aten._scaled_dot_product_flash_attention.default):
        assert is_random(graph.call_function(op, (*inputs, dropout))) is draws
    assert not is_random(graph.call_function(ON_CPU, tuple(inputs)))
