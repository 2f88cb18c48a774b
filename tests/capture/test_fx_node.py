from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
import torch.fx

from tcexplore.capture.fx_nodes import fx_node
from tcexplore.capture.tensor_descriptions import is_contiguous
from tcexplore.capture.user_files import UserFiles

USER_FILES = UserFiles(__file__)


def node(target: Any, *args: Any, op: str = "call_function", meta: dict[str, Any] | None = None, **kwargs: Any):
    created = torch.fx.Graph().create_node(op, target, args, kwargs)
    created.meta.update(meta or {})
    return fx_node(created, USER_FILES)


@pytest.mark.parametrize(
    ("target", "readable"),
    [
        (operator.add, "add"),
        (torch.nn.functional.linear, "torch.nn.functional.linear"),
        (torch._C._nn.gelu, "torch.nn.functional.gelu"),
        (torch.cat, "torch.cat"),
        (torch.ops.aten.mul.Tensor, "aten.mul.Tensor"),
        (torch.ops.higher_order.cond, "higher_order.cond"),
    ],
)
def test_targets_have_torchs_public_names(target: Any, readable: str):
    assert node(target).target == readable


def test_args_are_short():
    record = node(
        torch.cat, [1, 2.5], (3,), slice(None, 4, 2), ..., dim=0, dtype=torch.int8, memory=torch.channels_last
    )
    assert record.args == ("[1, 2.5], (3,), :4:2, ..., dim=0, dtype=torch.int8, memory=torch.channels_last")
    assert node(torch.cat, list(range(30))).args.endswith("… 30 in all]")
    assert len(node(torch.cat, "x" * 500).args) == 60


def test_an_object_is_shown_by_its_type_without_calling_its_repr():
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError

    holder = torch.fx.Graph().create_node("call_function", torch.cat, (), {})
    holder._args = (Loud(),)
    assert fx_node(holder, USER_FILES).args == "<Loud>"


def test_a_lower_level_node_has_its_value_and_origins():
    source = SimpleNamespace(name="aten_node", from_node=[SimpleNamespace(name="gelu", from_node=[])])
    record = node(torch.ops.aten.add.Tensor, meta={"val": torch.empty(2, 3, dtype=torch.int64), "from_node": [source]})
    assert (record.dtype, record.shape, record.stride, record.origins) == ("i64", ("2", "3"), ("3", "1"), ("gelu",))


def test_a_stack_contains_the_users_frames_only():
    frames = [
        (torch.__file__, 3, "linear"),
        (__file__, 7, "torch_dynamo_resume_in_f_at_5"),
        (torch.__file__, 9, "deep"),
    ]
    trace = "".join(f'  File "{file}", line {line}, in {name}\n    code\n' for file, line, name in frames)
    record = node(torch.cat, meta={"stack_trace": trace})
    assert [(place.line, place.function) for place in record.stack] == [(7, "f")]
    assert record.location == record.stack[-1]


def test_values_other_than_tensors_have_no_shape():
    record = node(torch.max, meta={"example_value": (torch.ones(2), torch.ones(2))})
    assert (record.dtype, record.shape, record.stride, record.contiguous) == (None, None, None, True)
    sparse = node(torch.cat, meta={"val": torch.eye(2).to_sparse()})
    assert (sparse.shape, sparse.stride) == (("2", "2"), None)


@pytest.mark.parametrize(
    ("shape", "stride", "dense"),
    [((2, 3), (3, 1), True), ((2, 3), (1, 2), False), ((1, 3), (99, 1), True), ((0, 3), (7, 7), True), ((), (), True)],
)
def test_contiguity_agrees_with_torch(shape: tuple[int, ...], stride: tuple[int, ...], dense: bool):
    assert is_contiguous(shape, stride) == torch.empty_strided(shape, stride).is_contiguous() == dense
