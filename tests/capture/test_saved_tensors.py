"""What autograd holds for a backward."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.capture.memory import saved_for_backward

pytestmark = pytest.mark.torch


def test_only_what_the_result_holds_is_saved_for_its_backward():
    w, x = torch.ones(8, 8, requires_grad=True), torch.ones(4, 8)

    def forward() -> torch.Tensor:
        y = x @ w
        if (y.exp() * 2).sum() > 1e9:  # its graph ends with the condition
            y = y.clamp(max=1.0)
        return y.exp()

    assert saved_for_backward(forward, (w, x)) == 4 * 4 * 8, "the result of exp"
    assert saved_for_backward(forward, ()) == 4 * (4 * 8 + 4 * 8), "and the input of the product"


def test_a_tensor_that_two_ops_hold_counts_once():
    w = torch.ones(8, requires_grad=True)

    def forward() -> torch.Tensor:
        y = w.exp()
        return y.exp() * y.sin()

    assert saved_for_backward(forward, (w,)) == 4 * 8 * 3, "y, its exp and its sin"
