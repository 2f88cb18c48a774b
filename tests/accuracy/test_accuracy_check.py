"""Verdicts on programs whose compiled side is known to be right, slightly off, or wrong."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest
import torch
from torch import nn

from tcexplore.accuracy import accuracy_check
from tcexplore.accuracy.rounded_ops import RoundedOps
from tests.accuracy.subjects import check

pytestmark = pytest.mark.torch

X = torch.randn(64, 256, generator=torch.Generator().manual_seed(1))


def total(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1)


def total_backwards(x: torch.Tensor) -> torch.Tensor:
    """Compute the same sum in another order."""
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
def test_the_verdict_matches_the_error_of_compiled(compiled: Callable[[torch.Tensor], Any], verdict: str):
    accuracy = check(total, compiled, X)
    assert accuracy.verdict == verdict
    assert (accuracy.calls, accuracy.total_calls, accuracy.reason) == (1, 1, "")


def test_nan_in_the_same_places_is_identical():
    def with_nan(x: torch.Tensor) -> torch.Tensor:
        return total(x).where(torch.arange(64) != 3, torch.nan)

    assert check(with_nan, with_nan, X).verdict == "identical"


def test_the_allowed_error_is_that_of_roundings_in_another_order():
    accurate = check(total, total_backwards, X)
    inaccurate = check(total, lambda x: total(x) * (1 + 1e-5), X)
    eps = torch.finfo(torch.float32).eps
    for accuracy in (accurate, inaccurate):
        allowed = accuracy.allowed_error or 0.0
        assert allowed == pytest.approx(16 * eps + 4 * max(accuracy.eager_vs_fp64 or 0, accuracy.rounded_error or 0))
        assert ((accuracy.compiled_vs_fp64 or 0) <= allowed) == (accuracy is accurate)
    assert check(total, total, X).allowed_error is None


def test_errors_are_relative_to_float64():
    accuracy = check(total, lambda x: total(x) * (1 + 1e-3), X)
    assert accuracy.worst == "output"
    assert accuracy.compiled_vs_fp64 == pytest.approx(1e-3, rel=1e-3)
    assert 0 < (accuracy.eager_vs_fp64 or 0) < 1e-6
    exact = X.double().sum(-1).abs().max()
    assert accuracy.max_abs == pytest.approx(float(exact) * 1e-3, rel=1e-2)


@pytest.mark.parametrize(
    ("eager", "compiled", "difference"),
    [
        (
            lambda x: x + 1,
            lambda x: (x + 1).t().contiguous().t(),
            "output has stride [256, 1] eagerly, [1, 64] compiled",
        ),
        (
            lambda x: x,
            lambda x: x.clone(),
            "output shares memory with input[0] eagerly, has its own memory compiled",
        ),
    ],
)
def test_layout_and_aliases_are_listed_but_not_wrong(
    eager: Callable[[torch.Tensor], Any], compiled: Callable[[torch.Tensor], Any], difference: str
):
    accuracy = check(eager, compiled, X)
    assert (accuracy.verdict, accuracy.differences) == ("identical", (difference,))


def test_an_output_on_another_device_is_wrong():
    accuracy = check(lambda x: (x + 1, x), lambda x: ((x + 1).to("meta"), x), X)
    assert accuracy.verdict == "wrong"
    assert "output[0] has device cpu eagerly, meta compiled" in accuracy.differences
    assert [value.name for value in accuracy.values] == ["output[1]"]


def test_an_input_that_only_one_side_changes_is_wrong():
    accuracy = check(lambda x: x.add_(1), lambda x: x + 1, X.clone())
    assert accuracy.verdict == "wrong"
    assert "input[0] is changed eagerly, not compiled" in accuracy.differences


def test_each_side_starts_with_the_original_buffers():
    model = nn.BatchNorm1d(256)
    accuracy = check(model, model, X, module=model)
    assert accuracy.verdict == "identical"
    assert {"output", "buffer running_mean", "buffer num_batches_tracked"} <= {value.name for value in accuracy.values}
    assert int(model.num_batches_tracked) == 0


class Cache(nn.Module):
    """Keeps the totals of its last input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("totals", torch.zeros(64))

    def fill(self, totals: torch.Tensor) -> torch.Tensor:
        self.totals.copy_(totals)
        return self.totals + 1


@pytest.mark.parametrize("filled_by", [total, total_backwards])
def test_a_cache_that_holds_the_values_of_one_side_is_accurate(filled_by: Callable[[torch.Tensor], torch.Tensor]):
    module = Cache()
    module.fill(filled_by(X))
    accuracy = check(lambda x: module.fill(total(x)), lambda x: module.fill(total_backwards(x)), X, module=module)
    assert (accuracy.verdict, accuracy.differences) == ("as accurate as eager", ())


def test_a_cache_that_compiled_does_not_fill_is_wrong():
    module = Cache()
    accuracy = check(lambda x: module.fill(total(x)), lambda x: total(x) + 1, X, module=module)
    assert accuracy.verdict == "wrong"
    assert accuracy.differences == ("buffer totals is changed eagerly, not compiled",)


def test_a_rounding_that_few_eager_runs_have_explains_a_result():
    """As where it decides on which side of zero the input of a ReLU is."""
    calls = 0

    def eager(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return total(x) * (1 + 1e-5 * (calls >= 8))

    accuracy = check(eager, lambda x: total(x) * (1 + 1e-5), X)
    assert accuracy.verdict == "as accurate as eager"
    assert calls == 8, "no more than it takes"


def test_no_rounding_explains_a_wrong_result():
    accuracy = check(total, lambda x: total(x) * 1.01, X)
    assert accuracy.verdict == "wrong"


class KeyCache(nn.Module):
    """Has the keys of 256 positions in bfloat16, and writes one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("keys", torch.randn(256, 64).bfloat16())
        self.weight = nn.Parameter(torch.randn(512, 64).bfloat16())

    def write(self, keys: torch.Tensor) -> torch.Tensor:
        self.keys[7] = keys.to(self.keys.dtype)
        return self.keys.sum()

    def in_parts(self, x: torch.Tensor) -> torch.Tensor:
        """Return keys with other roundings."""
        return sum(part @ weight for part, weight in zip(x.chunk(8), self.weight.chunk(8), strict=True))


def test_a_cache_in_bfloat16_that_holds_the_values_of_one_side_is_accurate():
    module, x = KeyCache(), torch.randn(512).bfloat16()
    with torch.no_grad():
        module.write(module.in_parts(x))
        eager, compiled = (lambda x: module.write(x @ module.weight)), (lambda x: module.write(module.in_parts(x)))
        accuracy = check(eager, compiled, x, module=module)
    assert accuracy.differences == ()
    assert accuracy.verdict != "wrong"
    assert "buffer keys" in {value.name for value in accuracy.values}


def test_a_position_that_compiled_does_not_write_is_wrong():
    module, x = KeyCache(), torch.randn(512).bfloat16()
    with torch.no_grad():
        accuracy = check(lambda x: module.write(x @ module.weight), lambda _: module.keys.sum(), x, module=module)
    assert accuracy.verdict == "wrong"
    assert "buffer keys is changed eagerly, not compiled" in accuracy.differences


def test_a_small_update_in_bfloat16_that_compiled_leaves_out_is_wrong():
    module, x = KeyCache(), torch.randn(512).bfloat16()
    with torch.no_grad():
        accuracy = check(lambda _: module.keys.mul_(1.03).sum(), lambda _: module.keys.sum(), x, module=module)
    assert "buffer keys is changed eagerly, not compiled" in accuracy.differences


def test_gradients_are_compared():
    torch.manual_seed(0)
    model = nn.Linear(256, 8)
    wrong = copy.deepcopy(model)
    wrong.weight.register_hook(lambda grad: grad * 2)

    def compiled(x: torch.Tensor) -> torch.Tensor:
        weight = model.weight * 1
        weight.register_hook(lambda grad: grad * 2)
        return nn.functional.linear(x, weight, model.bias)

    accuracy = check(model, compiled, X, train=True, module=model)
    assert (accuracy.verdict, accuracy.worst, accuracy.train) == ("wrong", "gradient of weight", True)
    assert {value.name: value.verdict for value in accuracy.values}["gradient of bias"] == "identical"
    assert model.weight.grad is None


def test_random_numbers_are_detected_and_made_equal():
    model = nn.Dropout(0.5)
    warmed: list[nn.Module] = []

    def unrandomized(warm: Callable[[Any], None]) -> Any:
        warm(model)
        warmed.append(model)
        return model

    accuracy = check(model, lambda x: x * 2, X, module=model, unrandomized=unrandomized)
    assert (accuracy.verdict, accuracy.random, accuracy.fallback_random, len(warmed)) == ("identical", True, True, 1)
    assert check(nn.ReLU(), nn.ReLU(), X).random is False


def test_integers_must_be_equal():
    assert check(lambda x: x.argmax(-1), lambda x: x.argmax(-1), X).verdict == "identical"
    assert check(lambda x: x.argmax(-1), lambda x: x.argmin(-1), X).verdict == "wrong"
    assert check(lambda x: x > 0, lambda x: x >= -10, X).verdict == "wrong"


def test_complex_numbers_are_compared_by_their_parts():
    assert check(torch.fft.fft, lambda x: torch.fft.fft(x) * (1 + 1e-8j), X).verdict == "as accurate as eager"
    assert check(torch.fft.fft, lambda x: torch.fft.fft(x) * 1j, X).verdict == "wrong"


def test_half_precision_allows_larger_errors():
    model = nn.Linear(256, 64).bfloat16()
    x = X.bfloat16()
    rounded = check(model, lambda y: model(y) * (1 + 2**-8), x, module=model)
    assert rounded.verdict == "as accurate as eager"
    assert check(model, lambda y: model(y) * 1.2, x, module=model).verdict == "wrong"


class Uncopyable(nn.Linear):
    def __deepcopy__(self, _: Any) -> Any:
        raise RuntimeError("no copies")


def test_a_model_that_cannot_be_copied_is_compared_with_eager_only():
    model = Uncopyable(256, 4)
    accuracy = check(model, lambda x: model(x) * (1 + 1e-7), X, module=model)
    assert (accuracy.verdict, accuracy.eager_vs_fp64) == ("close to eager", None)
    assert "no copies" in accuracy.reason
    assert check(model, lambda x: model(x) * 1.0001, X, module=model).verdict == "not close to eager"


def test_a_program_that_fails_in_float64_has_a_reason():
    weight = torch.randn(256, 4)
    accuracy = check(lambda x: x @ weight, lambda x: x @ weight, X)
    assert accuracy.verdict == "identical"
    assert accuracy.reason.startswith("it does not run in float64: RuntimeError")


def test_too_large_models_and_results_are_skipped(monkeypatch: pytest.MonkeyPatch):
    model = nn.Linear(256, 256)
    monkeypatch.setattr(accuracy_check, "free_memory", lambda _: 1_000_000)
    assert "a float64 copy of the model takes 514.0 KiB" in check(model, model, X[:16], module=model).reason
    monkeypatch.setattr(accuracy_check, "free_memory", lambda _: 100_000)
    accuracy = check(model, model, X, module=model)
    assert (accuracy.verdict, accuracy.calls) == ("not judged", 0)
    assert "comparing the largest result takes" in accuracy.reason


def test_a_gradient_that_is_zero_except_for_rounding_is_accurate():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 8), nn.LayerNorm(8, elementwise_affine=False))

    def compiled(x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.linear(x, model[0].weight, model[0].bias)
        return (y - y.mean(-1, keepdim=True)) * (y.var(-1, unbiased=False, keepdim=True) + 1e-5).rsqrt()

    accuracy = check(model, compiled, X, train=True, module=model)
    assert accuracy.verdict in ("identical", "as accurate as eager")
    assert math.isfinite(accuracy.compiled_vs_fp64 or 0.0)


def added_one_by_one(x: torch.Tensor) -> torch.Tensor:
    return reduce(torch.add, x.unbind(-1))


def cancelling_rows() -> torch.Tensor:
    """Return rows whose sum is positive, unless the terms are added one after the other."""
    rows = torch.randn(4096, 256, generator=torch.Generator().manual_seed(2))
    rows = rows - rows.mean(-1, keepdim=True)
    return rows[(total(rows) > 0) & (total(rows.double()) > 0) & (added_one_by_one(rows) < 0)]


def test_a_gradient_that_a_rounding_switches_off_is_accurate():
    x = cancelling_rows().requires_grad_()
    accuracy = check(
        lambda x: total(x).relu() + total(x) / 8, lambda x: added_one_by_one(x).relu() + total(x) / 8, x, train=True
    )
    assert accuracy.verdict == "as accurate as eager"
    gradient = next(value for value in accuracy.values if value.name.startswith("gradient"))
    assert (gradient.eager_vs_fp64 or 0) < 1e-6
    assert (gradient.compiled_vs_fp64 or 0) > 0.5
    assert (gradient.rounded_error or 0) > 0.3


def test_without_float64_a_difference_is_compared_with_those_of_other_roundings():
    def step(sums: torch.Tensor) -> torch.Tensor:
        return torch.signbit(sums.to(torch.float32) if sums.dtype is not torch.float64 else failing(sums)).float() + 1

    def failing(_: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("not in float64")

    x = cancelling_rows()
    accuracy = check(lambda x: step(total(x)), lambda x: step(added_one_by_one(x)), x)
    assert "not in float64" in accuracy.reason
    assert accuracy.verdict == "close to eager"
    assert check(lambda x: step(total(x + 1)), lambda x: step(total(x - 1)), x).verdict == "wrong"


def test_an_index_that_a_rounding_changes_is_accurate_and_any_other_is_wrong():
    x = cancelling_rows()
    signs = check(lambda x: total(x) > 0, lambda x: added_one_by_one(x) > 0, x)
    assert signs.verdict == "as accurate as eager"
    assert check(lambda x: total(x + 1) > 0, lambda x: total(x - 1) > 0, x).verdict == "wrong"


def test_other_roundings_leave_the_random_numbers_of_the_program_alone():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with RoundedOps(0):
        rounded = (X * 3).sum(-1)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(rounded, (X * 3).sum(-1))
    torch.testing.assert_close(rounded, (X * 3).sum(-1), rtol=1e-4, atol=1e-4)


def test_the_infinities_of_a_mask_have_no_rounding():
    mask = torch.ones(4, 4).tril().bool()
    with RoundedOps(0):
        scores = torch.ones(4, 4).masked_fill(~mask, float("-inf"))
        weights = scores.softmax(-1)
    assert torch.equal(torch.isneginf(scores), ~mask)
    assert not weights.isnan().any()
    assert not torch.equal(weights, torch.ones(4, 4).masked_fill(~mask, float("-inf")).softmax(-1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_least_value_of_a_mask_stays_finite_with_other_roundings(dtype: torch.dtype):
    least = torch.finfo(dtype).min
    with RoundedOps(0):
        mask = torch.full((64,), least, dtype=dtype)
        almost = mask * (1 - torch.finfo(dtype).eps)
        weights = (torch.ones(16, 4, dtype=dtype) + torch.full((4,), least, dtype=dtype)).softmax(-1)
        others = torch.tensor([math.inf, -math.inf, math.nan], dtype=dtype) * 1
    assert bool(mask.isfinite().all() and almost.isfinite().all())
    # A row of nothing else has equal weights, as without other roundings.
    torch.testing.assert_close(weights, torch.full((16, 4), 0.25, dtype=dtype))
    torch.testing.assert_close(others, torch.tensor([math.inf, -math.inf, math.nan], dtype=dtype), equal_nan=True)


def test_a_program_that_branches_on_the_dtype_is_compared_with_eager_only():
    def branching(x: torch.Tensor) -> torch.Tensor:
        return (x * 11).relu() if x.dtype is torch.float32 else x.relu()

    accuracy = check(branching, branching, X)
    assert (accuracy.verdict, accuracy.eager_vs_fp64, accuracy.compiled_vs_fp64) == ("identical", None, None)
    assert accuracy.reason.startswith("its float64 run takes another path")
    assert "runs aten.mul, float64 runs aten.relu" in accuracy.reason
    assert check(branching, lambda x: branching(x) * 1.01, X).verdict == "wrong"


def test_a_large_error_on_the_same_path_is_attributed_to_eager():
    def cancelling(x: torch.Tensor) -> torch.Tensor:
        return (x + 1e8) - 1e8

    accuracy = check(cancelling, cancelling, X)
    assert accuracy.reason == ""
    assert (accuracy.eager_vs_fp64 or 0) > 0.1


def test_a_norm_that_casts_to_float32_has_an_exact_float64_run():
    def norm(x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.float32)
        return (wide * wide.square().mean(-1, keepdim=True).rsqrt()).to(x.dtype)

    accuracy = check(norm, lambda x: norm(x) * (1 + 1e-5), X)
    assert accuracy.verdict == "less accurate than eager"
    assert 0 < (accuracy.eager_vs_fp64 or 0) < 2e-7
    assert accuracy.compiled_vs_fp64 == pytest.approx(1e-5, rel=1e-2)


class Conditional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(256, 4), nn.Linear(256, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = torch.cond(x.sum() > 0, lambda: self.left(x), lambda: self.right(x))
        return chosen


def test_eager_code_that_compiles_internally_keeps_working():
    model = Conditional()
    with torch.no_grad():
        own = model(X)
        accuracy = check(model, lambda _: own, X, module=model)
        assert (accuracy.verdict, accuracy.reason) == ("identical", "")
        assert accuracy.eager_vs_fp64 is not None
        assert torch.equal(model(X), own)
