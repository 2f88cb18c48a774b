"""Calls varied and treated: the tensors that they then have."""

from __future__ import annotations

import pytest
import torch

from tcexplore.capture.entry.entry import Call, Entry, EntryError
from tcexplore.capture.entry.varied_calls import vary_calls
from tcexplore.events import Config

pytestmark = pytest.mark.torch


def model(x: torch.Tensor, mask: torch.Tensor, scale: float = 1.0, *, shift: float = 0.0) -> torch.Tensor:
    return (x + mask[:, None]) * scale + shift


def entry() -> Entry:
    call = Call((torch.arange(6.0).reshape(3, 2), torch.ones(3)), {"shift": 0.5})
    return Entry("model", "function", "", model, (call,))


def test_sizes_and_values_are_combined_and_inputs_of_one_batch_grow_together():
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


def test_treatments_change_what_is_passed():
    (padded,) = vary_calls(entry(), Config(buckets=("x.0",))).calls
    assert (tuple(padded.args[0].shape), tuple(padded.args[1].shape)) == ((4, 2), (4,))
    assert padded.args[0][3].tolist() == [0.0, 0.0]
    (wide,) = vary_calls(entry(), Config(buckets=("x.0=2,16",))).calls
    assert tuple(wide.args[0].shape) == (16, 2)
    (tensor,) = vary_calls(entry(), Config(as_tensors=("shift",))).calls
    assert torch.equal(tensor.kwargs["shift"], torch.tensor(0.5))
    (marked,) = vary_calls(entry(), Config(mark_dynamic=("x.0",))).calls
    assert marked.args[0]._dynamo_dynamic_indices == {0}


@pytest.mark.parametrize("vary", ["y=1", "shift.0=1", "x.2=1", "9.0=1"])
def test_an_argument_that_is_not_there_is_the_persons_mistake(vary: str):
    with pytest.raises(EntryError) as raised:
        vary_calls(entry(), Config(vary=(vary,)))
    assert raised.value.stage == "arguments"


@pytest.mark.parametrize(("vary", "known"), [("y=1", "x, mask, scale, shift"), ("y.0=1", "x, mask, shift")])
def test_a_name_that_is_mistaken_is_answered_with_those_that_there_are(vary: str, known: str):
    with pytest.raises(EntryError) as raised:
        vary_calls(entry(), Config(vary=(vary,)))
    assert raised.value.message.endswith(f": it has {known}.")
