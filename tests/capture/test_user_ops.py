"""The user's kernels and ops behind FX nodes."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch
from torch._ops import HigherOrderOperator

from tcexplore.capture.fx_nodes import fx_node
from tcexplore.capture.user_files import UserFiles
from tcexplore.capture.user_ops import user_op

pytestmark = pytest.mark.torch


class HelionWrapper(HigherOrderOperator):
    """The operator with which Helion puts a kernel into a graph."""

    def __init__(self) -> None:
        super().__init__("helion_kernel_wrapper_mutation")

    def __call__(self, **kwargs: object) -> object:
        return super().__call__(**kwargs)


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def call(target: object, **kwargs: object) -> torch.fx.Node:
    return torch.fx.Graph().call_function(target, kwargs=kwargs)


def test_a_helion_kernel_is_recognized_by_the_name_of_its_operator(monkeypatch: pytest.MonkeyPatch):
    node = call(HelionWrapper(), kernel_idx=0)
    own = user_op(node)
    assert own is not None
    assert (own.kind, own.name, own.source) == ("Helion kernel", "helion_kernel", "")
    table = SimpleNamespace(get_kernel=lambda _: SimpleNamespace(fn=add_one))
    module = SimpleNamespace(helion_kernel_side_table=table)
    monkeypatch.setitem(sys.modules, "helion._compiler._dynamo.higher_order_ops", module)
    own = user_op(node)
    assert own is not None
    assert own.name == "add_one"
    assert "return x + 1" in own.source


def test_an_unknown_triton_kernel_costs_only_the_description():
    from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_mutation

    node = call(triton_kernel_wrapper_mutation, kernel_idx=10_000, constant_args_idx=0, grid=[(1, 1, 1)], kwargs={})
    record = fx_node(node, UserFiles(__file__))
    assert record.user_op is None
    assert "kernel_idx=10000" in record.args


@pytest.mark.parametrize("op", [torch.ops.aten.mul.Tensor, torch.ops.prims.sin.default, torch.relu])
def test_torchs_own_ops_are_not_the_users(op: object):
    assert user_op(call(op)) is None
