"""State dict keys of a compiled module."""

from __future__ import annotations

import pytest
import torch

from tcexplore.worker.examination import state_keys

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def test_compiled_keys_have_a_prefix_and_in_place_keys_have_none():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2))
    keys = state_keys(model, torch.compile(model, backend="eager"))
    assert keys is not None
    assert keys.compiled == tuple(torch.compile(model, backend="eager").state_dict())
    assert keys.prefix == "_orig_mod."
    assert keys.in_place == keys.module == ("0.weight", "0.bias", "1.weight", "1.bias")
    assert model._compiled_call_impl is None
    model.compile(backend="eager")
    assert state_keys(model, model).prefix == ""


def test_functions_and_modules_without_parameters_have_no_keys():
    assert state_keys(torch.nn.Linear(1, 1), torch.compile(torch.sin, backend="eager")) is None
    bare = torch.nn.GELU()
    assert state_keys(bare, torch.compile(bare, backend="eager")) is None
