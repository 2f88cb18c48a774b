"""The judgement on programs whose compiled side is known to be right, a little off, or wrong."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tcexplore.accuracy import accuracy_check as measure
from tcexplore.accuracy import float64_copy as double
from tests.accuracy.subjects import compared

pytestmark = pytest.mark.torch

X = torch.randn(64, 256, generator=torch.Generator().manual_seed(1))


def total(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1)


def total_backwards(x: torch.Tensor) -> torch.Tensor:
    """The same in another order."""
    return x.flip(-1).cumsum(-1)[:, -1]


@pytest.mark.parametrize(
    ("compiled", "verdict"),
    [
        (total, "identical"),
        (total_backwards, "as accurate as eager"),
        (lambda x: total(x) * (1 + 1e-5), "less accurate than eager"),
        (lambda x: total(x) * 1.01, "wrong"),
        (lambda x: total(x).where(torch.arange(64) != 3, torch.nan), "wrong"),
        (lambda x: total(x).double(), "wrong"),
        (lambda x: total(x)[:32], "wrong"),
        (lambda x: (total(x), 1), "wrong"),
    ],
)
def test_verdict(compiled: Callable[[torch.Tensor], Any], verdict: str):
    found = compared(total, compiled, X)
    assert found.verdict == verdict
    assert (found.calls, found.total_calls, found.reason) == (1, 1, "")


def test_the_errors_are_those_against_float64():
    found = compared(total, lambda x: total(x) * (1 + 1e-3), X)
    assert found.worst == "output"
    assert found.compiled_vs_fp64 == pytest.approx(1e-3, rel=1e-3)
    assert 0 < (found.eager_vs_fp64 or 0) < 1e-6
    exact = X.double().sum(-1).abs().max()
    assert found.max_abs == pytest.approx(float(exact) * 1e-3, rel=1e-2)


@pytest.mark.parametrize(
    ("eager", "compiled", "said"),
    [
        (
            lambda x: x + 1,
            lambda x: (x + 1).t().contiguous().t(),
            "output has stride [256, 1] eagerly, [1, 64] compiled",
        ),
        (
            lambda x: x,
            lambda x: x.clone(),
            "output shares memory with input[0] eagerly, has memory of its own compiled",
        ),
    ],
)
def test_layout_and_aliases_are_named_but_make_nothing_wrong(
    eager: Callable[[torch.Tensor], Any], compiled: Callable[[torch.Tensor], Any], said: str
):
    found = compared(eager, compiled, X)
    assert (found.verdict, found.differences) == ("identical", (said,))


def test_an_output_on_another_device_is_told_and_wrong():
    found = compared(lambda x: (x + 1, x), lambda x: ((x + 1).to("meta"), x), X)
    assert found.verdict == "wrong"
    assert "output[0] has device cpu eagerly, meta compiled" in found.differences
    assert [value.name for value in found.values] == ["output[1]"]


def test_an_input_that_only_one_side_changes():
    found = compared(lambda x: x.add_(1), lambda x: x + 1, X.clone())
    assert found.verdict == "wrong"
    assert "input[0] is changed eagerly, not compiled" in found.differences


def test_each_side_finds_the_buffers_as_they_were():
    model = nn.BatchNorm1d(256)
    found = compared(model, model, X, module=model)
    assert found.verdict == "identical"
    assert {"output", "buffer running_mean", "buffer num_batches_tracked"} <= {value.name for value in found.values}
    assert int(model.num_batches_tracked) == 0


def test_gradients_are_judged_too():
    torch.manual_seed(0)
    model = nn.Linear(256, 8)
    wrong = copy.deepcopy(model)
    wrong.weight.register_hook(lambda grad: grad * 2)

    def compiled(x: torch.Tensor) -> torch.Tensor:
        weight = model.weight * 1
        weight.register_hook(lambda grad: grad * 2)
        return nn.functional.linear(x, weight, model.bias)

    found = compared(model, compiled, X, train=True, module=model)
    assert (found.verdict, found.worst, found.train) == ("wrong", "gradient of weight", True)
    assert {value.name: value.verdict for value in found.values}["gradient of bias"] == "identical"
    assert model.weight.grad is None


def test_random_numbers_are_recognized_and_drawn_alike():
    model = nn.Dropout(0.5)
    asked = []

    def unrandomized(warm: Callable[[Any], None]) -> Any:
        asked.append(warm(model))
        return model

    found = compared(model, lambda x: x * 2, X, module=model, unrandomized=unrandomized)
    assert (found.verdict, found.random, found.fallback_random, len(asked)) == ("identical", True, True, 1)
    assert compared(nn.ReLU(), nn.ReLU(), X).random is False


def test_whole_numbers_are_the_same_or_not():
    assert compared(lambda x: x.argmax(-1), lambda x: x.argmax(-1), X).verdict == "identical"
    assert compared(lambda x: x.argmax(-1), lambda x: x.argmin(-1), X).verdict == "wrong"
    assert compared(lambda x: x > 0, lambda x: x >= -10, X).verdict == "wrong"


def test_complex_numbers_are_judged_by_their_parts():
    assert compared(torch.fft.fft, lambda x: torch.fft.fft(x) * (1 + 1e-8j), X).verdict == "as accurate as eager"
    assert compared(torch.fft.fft, lambda x: torch.fft.fft(x) * 1j, X).verdict == "wrong"


def test_half_precision_has_fewer_digits_to_lose():
    model = nn.Linear(256, 64).bfloat16()
    x = X.bfloat16()
    rounded = compared(model, lambda y: model(y) * (1 + 2**-8), x, module=model)
    assert rounded.verdict == "as accurate as eager"
    assert compared(model, lambda y: model(y) * 1.2, x, module=model).verdict == "wrong"


class Stubborn(nn.Linear):
    def __deepcopy__(self, _: Any) -> Any:
        raise RuntimeError("there is only one of me")


def test_without_a_copy_it_is_compared_with_eager_alone():
    model = Stubborn(256, 4)
    found = compared(model, lambda x: model(x) * (1 + 1e-7), X, module=model)
    assert (found.verdict, found.eager_vs_fp64) == ("close to eager", None)
    assert "there is only one of me" in found.reason
    assert compared(model, lambda x: model(x) * 1.0001, X, module=model).verdict == "not close to eager"


def test_a_program_that_does_not_run_in_float64_says_so():
    weight = torch.randn(256, 4)
    found = compared(lambda x: x @ weight, lambda x: x @ weight, X)
    assert found.verdict == "identical"
    assert found.reason.startswith("it does not run in float64: RuntimeError")


def test_too_large_is_not_tried(monkeypatch: pytest.MonkeyPatch):
    model = nn.Linear(256, 256)
    monkeypatch.setattr(double, "free_memory", lambda _: 1_000_000)
    assert "a float64 copy of the model takes 514.0 KiB" in compared(model, model, X, module=model).reason
    monkeypatch.setattr(measure, "free_memory", lambda _: 100_000)
    found = compared(model, model, X, module=model)
    assert (found.verdict, found.calls) == ("not judged", 0)
    assert "comparing the largest result takes" in found.reason


def test_a_gradient_that_is_zero_but_for_rounding_is_no_difference():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 8), nn.LayerNorm(8, elementwise_affine=False))

    def compiled(x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.linear(x, model[0].weight, model[0].bias)
        return (y - y.mean(-1, keepdim=True)) * (y.var(-1, unbiased=False, keepdim=True) + 1e-5).rsqrt()

    found = compared(model, compiled, X, train=True, module=model)
    assert found.verdict in ("identical", "as accurate as eager")
    assert math.isfinite(found.compiled_vs_fp64 or 0.0)


def test_a_program_that_branches_on_the_dtype_is_compared_with_eager_alone():
    def branching(x: torch.Tensor) -> torch.Tensor:
        return (x * 11).relu() if x.dtype is torch.float32 else x.relu()

    found = compared(branching, branching, X)
    assert (found.verdict, found.eager_vs_fp64, found.compiled_vs_fp64) == ("identical", None, None)
    assert found.reason.startswith("its float64 run takes another path")
    assert "runs aten.mul, float64 runs aten.relu" in found.reason
    assert compared(branching, lambda x: branching(x) * 1.01, X).verdict == "wrong"


def test_far_from_float64_on_the_same_path_is_eagers_own_error():
    def cancelling(x: torch.Tensor) -> torch.Tensor:
        return (x + 1e8) - 1e8

    found = compared(cancelling, cancelling, X)
    assert found.reason == ""
    assert (found.eager_vs_fp64 or 0) > 0.1


def test_a_norm_that_casts_to_float32_is_exact_in_float64_all_the_same():
    def norm(x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.float32)
        return (wide * wide.square().mean(-1, keepdim=True).rsqrt()).to(x.dtype)

    found = compared(norm, lambda x: norm(x) * (1 + 1e-5), X)
    assert found.verdict == "less accurate than eager"
    assert 0 < (found.eager_vs_fp64 or 0) < 2e-7
    assert found.compiled_vs_fp64 == pytest.approx(1e-5, rel=1e-2)


class Chosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(256, 4), nn.Linear(256, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = torch.cond(x.sum() > 0, lambda: self.left(x), lambda: self.right(x))
        return chosen


def test_eager_code_that_compiles_what_it_is_given_goes_on_working():
    model = Chosen()
    with torch.no_grad():
        own = model(X)
        found = compared(model, lambda _: own, X, module=model)
        assert (found.verdict, found.reason) == ("identical", "")
        assert found.eager_vs_fp64 is not None
        assert torch.equal(model(X), own)
