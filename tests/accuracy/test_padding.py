"""Results with padding beside those without: the same, others, or not to be compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tcexplore.accuracy.compared_calls import Subject
from tcexplore.accuracy.padded_inputs import judge_padding
from tcexplore.capture.entry.entry import Call
from tcexplore.events import PaddingChecked

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
LARGE = torch.cat((X, X.new_zeros(2, 4)))


def judged(function: Callable[..., Any], *pairs: tuple[torch.Tensor, torch.Tensor]) -> PaddingChecked:
    pairs = pairs or ((X, LARGE),)
    plain, padded = ([Call((pair[side],)) for pair in pairs] for side in (0, 1))
    subject = Subject(
        eager=function, compiled=function, calls=tuple(padded), call=lambda f, c: f(*c.args), restore=lambda: None,
        seed=lambda: torch.manual_seed(0) and None, train=False, module=None, unrandomized=None,
    )  # fmt: skip
    return judge_padding(subject, plain, padded)


def test_what_is_computed_row_by_row_is_the_same():
    found = judged(lambda x: (x.sin(), {"scores": x @ x.t()}), (X, LARGE), (LARGE, LARGE))
    assert (found.verdict, found.calls, found.reason) == ("equal", 1, "")
    assert (found.max_abs or 0.0) < 1e-5


def test_a_mean_over_the_rows_is_another_and_is_named():
    found = judged(lambda x: (x.sin(), x.mean(0)))
    assert (found.verdict, found.reason) == ("different", "call 1, output[1]")
    assert (found.max_abs or 0.0) > 0.01


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: x.flatten(), "output has shape [24], and [32] with padding"),
        (torch.rand_like, "draws random numbers"),
        (lambda x: x.shape[0], "other numbers"),
        (lambda x: list(x.unbind(0)), "other outputs"),
    ],
)
def test_what_cannot_be_compared_says_why(function: Callable[..., Any], why: str):
    found = judged(function)
    assert found.verdict == "not compared"
    assert why in found.reason


def test_nothing_padded_is_nothing_compared():
    assert judged(torch.sin, (X, X)).reason == "every size is one of the buckets already"
