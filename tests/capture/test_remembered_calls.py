from __future__ import annotations

import gc
import weakref

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.capture.entry import Call, EntryError
from tcexplore.capture.region_queries import CallState, RememberedCall


class Cache:
    """An object of the user."""


def test_a_live_tensor_is_returned_and_a_dead_one_is_recreated():
    live, dead = torch.ones(2), torch.ones(3, 2).t().requires_grad_()
    torch._dynamo.mark_dynamic(dead, 1)
    reference = weakref.ref(dead)
    remembered = RememberedCall(Call((live, [dead, dead]), {"k": 0.5}))
    assert remembered.texts == ("f32[2]", "[f32[2, 3], f32[2, 3]]", "k=0.5")
    assert remembered.recreate().args[1][0] is dead
    del dead
    gc.collect()
    assert reference() is None
    call = remembered.recreate()
    assert call.args[0] is live
    one, same = call.args[1]
    assert one is same
    assert (one.stride(), one.requires_grad, one._dynamo_dynamic_indices) == ((1, 2), True, {1})
    assert call.kwargs == {"k": 0.5}


def test_another_dead_object_is_an_error():
    remembered = RememberedCall(Call((Cache(),)))
    with pytest.raises(EntryError, match=r"\(Cache\) no longer exists"):
        remembered.recreate()


def test_the_modes_of_a_call_are_restored():
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        state = CallState.current()
    with torch.inference_mode():
        inference = CallState.current()
    outer = CallState.current()
    with state.restore():
        assert CallState.current() == state
    with inference.restore():
        assert CallState.current() == inference
        with state.restore():
            assert CallState.current() == state
    assert CallState.current() == outer
