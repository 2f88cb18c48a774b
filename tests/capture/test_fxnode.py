from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
import torch.fx

from tcexplore.capture.fx.fx_node import fx_node
from tcexplore.capture.fx.tensor_descriptions import is_contiguous
from tcexplore.capture.user_files import UserFiles

HERE = __file__
PROJECT = UserFiles(HERE)


def node(target: Any, *args: Any, op: str = "call_function", meta: dict[str, Any] | None = None, **kwargs: Any):
    made = torch.fx.Graph().create_node(op, target, args, kwargs)
    made.meta.update(meta or {})
    return fx_node(made, PROJECT)


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
def test_targets_are_torchs_public_names(target: Any, readable: str):
    assert node(target).target == readable


def test_args_are_short_text():
    found = node(torch.cat, [1, 2.5], (3,), slice(None, 4, 2), ..., dim=0, dtype=torch.int8, memory=torch.channels_last)
    assert found.args == ("[1, 2.5], (3,), :4:2, ..., dim=0, dtype=torch.int8, memory=torch.channels_last")
    assert node(torch.cat, list(range(30))).args.endswith("… 30 in all]")
    assert len(node(torch.cat, "x" * 500).args) == 60


def test_an_object_is_shown_by_its_type_and_its_own_code_is_not_run():
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError

    holder = torch.fx.Graph().create_node("call_function", torch.cat, (), {})
    holder._args = (Loud(),)
    assert fx_node(holder, PROJECT).args == "<Loud>"


def test_the_value_of_a_lower_graph_and_its_origins():
    source = SimpleNamespace(name="aten_node", from_node=[SimpleNamespace(name="gelu", from_node=[])])
    found = node(torch.ops.aten.add.Tensor, meta={"val": torch.empty(2, 3, dtype=torch.int64), "from_node": [source]})
    assert (found.dtype, found.shape, found.stride, found.origins) == ("i64", ("2", "3"), ("3", "1"), ("gelu",))


def test_a_stack_is_cut_to_the_persons_frames():
    frames = [(torch.__file__, 3, "linear"), (HERE, 7, "torch_dynamo_resume_in_f_at_5"), (torch.__file__, 9, "deep")]
    trace = "".join(f'  File "{file}", line {line}, in {name}\n    code\n' for file, line, name in frames)
    found = node(torch.cat, meta={"stack_trace": trace})
    assert [(place.line, place.function) for place in found.stack] == [(7, "f")]
    assert found.location == found.stack[-1]


def test_what_is_no_tensor_has_no_shape():
    found = node(torch.max, meta={"example_value": (torch.ones(2), torch.ones(2))})
    assert (found.dtype, found.shape, found.stride, found.contiguous) == (None, None, None, True)
    sparse = node(torch.cat, meta={"val": torch.eye(2).to_sparse()})
    assert (sparse.shape, sparse.stride) == (("2", "2"), None)


@pytest.mark.parametrize(
    ("shape", "stride", "dense"),
    [((2, 3), (3, 1), True), ((2, 3), (1, 2), False), ((1, 3), (99, 1), True), ((0, 3), (7, 7), True), ((), (), True)],
)
def test_contiguity_is_that_of_torch(shape: tuple[int, ...], stride: tuple[int, ...], dense: bool):
    assert is_contiguous(shape, stride) == torch.empty_strided(shape, stride).is_contiguous() == dense
