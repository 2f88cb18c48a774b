from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.capture.dynamo import eager_ops
from tests.capture import break_programs
from tests.capture.dynamo_capture import capture_events

pytestmark = pytest.mark.torch


def measure(program: Callable[..., Any], x: torch.Tensor):
    with capture_events(break_programs.__file__):
        compiled = torch.compile(program, backend="eager")
        compiled(x)
        return eager_ops.measure_eager_ops(lambda: compiled(x))


def test_an_op_between_two_graphs_is_eager_although_torchs_region_contains_it():
    measured = measure(break_programs.calls_a_disabled_function, torch.ones(4, 4))
    assert [(name, times) for name, times, _ in measured.ops] == [("aten.add", 1)]
    assert measured.ops[0][2] > 0
    assert measured.region_entries == 2


def test_a_whole_graph_has_no_eager_ops():
    measured = measure(break_programs.appends_to_a_list, torch.ones(4, 4))
    assert (measured.ops, measured.region_entries) == ((), 1)


def test_all_ops_of_a_skipped_frame_are_eager():
    measured = measure(break_programs.breaks_in_a_loop, torch.ones(4, 4))
    assert {name: times for name, times, _ in measured.ops} == {"aten.sin": 3, "aten.cos": 1}
    assert measured.region_entries == 0


def test_the_call_with_the_shortest_ops_counts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(eager_ops, "REPEAT_S", 60.0)
    slow, fast = (torch.ones(1 << 22), torch.Tensor.exp), (torch.ones(4), torch.Tensor.sin)
    calls = iter((slow, fast, slow))
    resets: list[None] = []

    def call() -> None:
        x, op = next(calls)
        op(x)

    with capture_events(break_programs.__file__):
        measured = eager_ops.measure_eager_ops(call, lambda: resets.append(None))
    assert [(name, times) for name, times, _ in measured.ops] == [("aten.sin", 1)]
    assert len(resets) == eager_ops.PROFILES


def test_measuring_restores_the_graphs():
    with capture_events(break_programs.__file__), warnings.catch_warnings():
        compiled = torch.compile(break_programs.appends_to_a_list, backend="eager")
        compiled(torch.ones(4))
        scope = break_programs.__dict__
        before = {name: value for name, value in scope.items() if name.startswith("__compiled_fn")}
        eager_ops.measure_eager_ops(lambda: compiled(torch.ones(4)))
        assert before
        assert {name: scope[name] for name in before} == before


def test_a_torch_without_the_hook_raises(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(eager_ops, "_graphs", None)
    with pytest.raises(eager_ops.EagerOpsUnknownError, match="install_global_unsafe"):
        eager_ops.measure_eager_ops(lambda: None)
