"""Varied and resized calls."""

from __future__ import annotations

import pytest
import torch

from tcexplore.capture.entry import Call, Entry, EntryError
from tcexplore.capture.varied_calls import resize_calls, vary_calls
from tcexplore.events import Config

pytestmark = pytest.mark.torch


def model(x: torch.Tensor, mask: torch.Tensor, scale: float = 1.0, *, shift: float = 0.0) -> torch.Tensor:
    return (x + mask[:, None]) * scale + shift


def entry() -> Entry:
    call = Call((torch.arange(6.0).reshape(3, 2), torch.ones(3)), {"shift": 0.5})
    return Entry("model", "function", "", model, (call,))


def test_sizes_and_values_are_combined_and_batch_inputs_change_together():
    calls = vary_calls(entry(), Config(vary=("x.0=2,5", "scale=0.1,0.2"))).calls
    assert [(tuple(call.args[0].shape), tuple(call.args[1].shape), call.kwargs["scale"]) for call in calls] == [
        ((2, 2), (2,), 0.1), ((2, 2), (2,), 0.2), ((5, 2), (5,), 0.1), ((5, 2), (5,), 0.2),
    ]  # fmt: skip
    assert calls[2].args[0][3:].tolist() == calls[2].args[0][:2].tolist()
    assert [tuple(c.args[0].shape) for c in vary_calls(entry(), Config(vary=("0.1=1..3",))).calls] == [
        (3, 1),
        (3, 2),
        (3, 3),
    ]


def test_buckets_marks_and_tensors_change_the_inputs():
    (padded,) = vary_calls(entry(), Config(buckets=("x.0",))).calls
    assert (tuple(padded.args[0].shape), tuple(padded.args[1].shape)) == ((4, 2), (4,))
    assert padded.args[0][3].tolist() == [0.0, 0.0]
    (wide,) = vary_calls(entry(), Config(buckets=("x.0=2,16",))).calls
    assert tuple(wide.args[0].shape) == (16, 2)
    (tensor,) = vary_calls(entry(), Config(as_tensors=("shift",))).calls
    assert torch.equal(tensor.kwargs["shift"], torch.tensor(0.5))
    (marked,) = vary_calls(entry(), Config(mark_dynamic=("x.0",))).calls
    assert marked.args[0]._dynamo_dynamic_indices == {0}


def test_the_calls_of_the_file_come_first_where_that_is_asked_for():
    config = Config(vary=("x.0=2", "scale=0.1"), own_calls_first=True, as_tensors=("scale",))
    calls = vary_calls(entry(), config).calls
    assert [tuple(call.args[0].shape) for call in calls] == [(3, 2), (2, 2)]
    assert [call.kwargs["scale"] for call in calls] == [torch.tensor(1.0), torch.tensor(0.1)], "1.0 is its default"


@pytest.mark.parametrize("vary", ["y=1", "shift.0=1", "x.2=1", "9.0=1"])
def test_an_unknown_argument_is_an_error_of_the_user(vary: str):
    with pytest.raises(EntryError) as error:
        vary_calls(entry(), Config(vary=(vary,)))
    assert error.value.stage == "arguments"


@pytest.mark.parametrize(("vary", "known"), [("y=1", "x, mask, scale, shift"), ("y.0=1", "x, mask, shift")])
def test_the_error_lists_the_known_arguments(vary: str, known: str):
    with pytest.raises(EntryError) as error:
        vary_calls(entry(), Config(vary=(vary,)))
    assert error.value.message.endswith(f": it has {known}.")


def sized_entry(*calls: Call) -> Entry:
    return Entry("f", "function", "", lambda: None, calls)


def test_every_tensor_of_the_same_size_is_resized():
    x, weight = torch.arange(6.0).view(2, 3).requires_grad_(), torch.ones(3, 3)
    resized = resize_calls(sized_entry(Call((x, weight), {"mask": x, "ids": torch.tensor([7, 8])})), 0, (1, 5))
    small, large = resized.calls
    assert small.args[0].tolist() == [[0, 1, 2]]
    assert large.args[0].shape == (5, 3)
    assert large.kwargs["ids"].tolist() == [7, 8, 7, 8, 7]
    assert large.args[1] is weight
    assert large.args[0] is large.kwargs["mask"]
    assert large.args[0].requires_grad
    assert large.args[0].is_leaf


def test_no_sizes_change_nothing_and_a_missing_dimension_is_an_error():
    one = sized_entry(Call((torch.ones(2),)))
    assert resize_calls(one, 0, ()) is one
    with pytest.raises(EntryError, match="No input has a non-empty dimension 1") as error:
        resize_calls(one, 1, (4,))
    assert error.value.stage == "arguments"
