from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.capture.dynamo import eager_ops
from tests.capture import breaking
from tests.capture.dynamo import watching

pytestmark = pytest.mark.torch


def measured(program: Callable[..., Any], x: torch.Tensor):
    with watching(breaking.__file__):
        compiled = torch.compile(program, backend="eager")
        compiled(x)
        return eager_ops.measure_eager_ops(lambda: compiled(x))


def test_an_op_between_two_graphs_is_outside_although_torchs_region_holds_it():
    found = measured(breaking.calls_what_is_disabled, torch.ones(4, 4))
    assert [(name, times) for name, times, _ in found.ops] == [("aten.add", 1)]
    assert found.ops[0][2] > 0
    assert found.regions == 2


def test_a_whole_graph_leaves_nothing_outside():
    found = measured(breaking.appends_to_a_list, torch.ones(4, 4))
    assert (found.ops, found.regions) == ((), 1)


def test_a_frame_that_was_given_up_is_all_outside():
    found = measured(breaking.breaks_in_a_loop, torch.ones(4, 4))
    assert {name: times for name, times, _ in found.ops} == {"aten.sin": 3, "aten.cos": 1}
    assert found.regions == 0


def test_the_graphs_are_left_as_they_were():
    with watching(breaking.__file__), warnings.catch_warnings():
        compiled = torch.compile(breaking.appends_to_a_list, backend="eager")
        compiled(torch.ones(4))
        scope = breaking.__dict__
        before = {name: value for name, value in scope.items() if name.startswith("__compiled_fn")}
        eager_ops.measure_eager_ops(lambda: compiled(torch.ones(4)))
        assert before
        assert {name: scope[name] for name in before} == before


def test_a_torch_without_the_hook_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(eager_ops, "_graphs", None)
    with pytest.raises(eager_ops.EagerOpsUnknownError, match="install_global_unsafe"):
        eager_ops.measure_eager_ops(lambda: None)
