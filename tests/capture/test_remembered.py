from __future__ import annotations

import gc
import weakref

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.capture.entry.entry import Call, EntryError
from tcexplore.capture.regions.remembered_calls import CallState, RememberedCall


class Cache:
    """Something of the user's own."""


def test_a_tensor_that_is_gone_comes_back_as_one_like_it_and_one_that_is_there_as_itself():
    there, gone = torch.ones(2), torch.ones(3, 2).t().requires_grad_()
    torch._dynamo.mark_dynamic(gone, 1)
    watched = weakref.ref(gone)
    remembered = RememberedCall(Call((there, [gone, gone]), {"k": 0.5}))
    assert remembered.texts == ("f32[2]", "[f32[2, 3], f32[2, 3]]", "k=0.5")
    assert remembered.recreate().args[1][0] is gone
    del gone
    gc.collect()
    assert watched() is None
    call = remembered.recreate()
    assert call.args[0] is there
    one, same = call.args[1]
    assert one is same
    assert (one.stride(), one.requires_grad, one._dynamo_dynamic_indices) == ((1, 2), True, {1})
    assert call.kwargs == {"k": 0.5}


def test_anything_else_that_is_gone_is_said():
    remembered = RememberedCall(Call((Cache(),)))
    with pytest.raises(EntryError, match=r"\(Cache\) no longer exists"):
        remembered.recreate()


def test_the_modes_of_a_call_are_entered_again():
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        state = CallState.current()
    with torch.inference_mode():
        inference = CallState.current()
    now = CallState.current()
    with state.restore():
        assert CallState.current() == state
    with inference.restore():
        assert CallState.current() == inference
        with state.restore():
            assert CallState.current() == state
    assert CallState.current() == now
