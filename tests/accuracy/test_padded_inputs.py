"""Results with padding: equal to those without, different, or not comparable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tcexplore.accuracy.observation import Subject
from tcexplore.accuracy.padded_inputs import check_padding
from tcexplore.capture.entry import Call
from tcexplore.events import PaddingChecked

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
LARGE = torch.cat((X, X.new_zeros(2, 4)))


def check(function: Callable[..., Any], *pairs: tuple[torch.Tensor, torch.Tensor]) -> PaddingChecked:
    pairs = pairs or ((X, LARGE),)
    plain, padded = ([Call((pair[side],)) for pair in pairs] for side in (0, 1))
    subject = Subject(
        eager=function, compiled=function, calls=tuple(padded), call=lambda f, c: f(*c.args), restore=lambda: None,
        seed=lambda: torch.manual_seed(0) and None, train=False, module=None, unrandomized=None,
    )  # fmt: skip
    return check_padding(subject, plain, padded)


def test_rowwise_results_are_equal():
    result = check(lambda x: (x.sin(), {"scores": x @ x.t()}), (X, LARGE), (LARGE, LARGE))
    assert (result.verdict, result.calls, result.reason) == ("equal", 1, "")
    assert (result.max_abs or 0.0) < 1e-5


def test_a_mean_over_the_rows_differs():
    result = check(lambda x: (x.sin(), x.mean(0)))
    assert (result.verdict, result.reason) == ("different", "call 1, output[1]")
    assert (result.max_abs or 0.0) > 0.01


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x.flatten(), "output has shape [24], and [32] with padding"),
        (torch.rand_like, "draws random numbers"),
        (lambda x: x.shape[0], "different numbers"),
        (lambda x: list(x.unbind(0)), "different outputs"),
    ],
)
def test_incomparable_results_have_a_reason(function: Callable[..., Any], reason: str):
    result = check(function)
    assert result.verdict == "not compared"
    assert reason in result.reason


def test_nothing_is_compared_without_padding():
    assert check(torch.sin, (X, X)).reason == "every size is already a bucket size"
