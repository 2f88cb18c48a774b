"""The file's calls at other sizes."""

from __future__ import annotations

import pytest
import torch

from tcexplore.capture.entry.entry import Call, Entry, EntryError
from tcexplore.capture.entry.varied_calls import resize_calls

pytestmark = pytest.mark.torch


def entry(*calls: Call) -> Entry:
    return Entry("f", "function", "", lambda: None, calls)


def test_every_tensor_that_shares_the_dimension_gets_the_size():
    x, weight = torch.arange(6.0).view(2, 3).requires_grad_(), torch.ones(3, 3)
    found = resize_calls(entry(Call((x, weight), {"mask": x, "ids": torch.tensor([7, 8])})), 0, (1, 5))
    small, large = found.calls
    assert small.args[0].tolist() == [[0, 1, 2]]
    assert large.args[0].shape == (5, 3)
    assert large.kwargs["ids"].tolist() == [7, 8, 7, 8, 7]
    assert large.args[1] is weight
    assert large.args[0] is large.kwargs["mask"]
    assert large.args[0].requires_grad
    assert large.args[0].is_leaf


def test_without_sizes_nothing_changes_and_without_the_dimension_it_says_so():
    one = entry(Call((torch.ones(2),)))
    assert resize_calls(one, 0, ()) is one
    with pytest.raises(EntryError, match="No input has a non-empty dimension 1") as refused:
        resize_calls(one, 1, (4,))
    assert refused.value.stage == "arguments"
