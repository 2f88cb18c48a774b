from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.capture.dynamo import eager_ops
from tcexplore.capture.inductor.call_profile import profile_call
from tcexplore.events import CallProfiled
from tests.capture import break_programs
from tests.capture.dynamo_capture import capture_events

pytestmark = pytest.mark.torch


def profile(program: Callable[..., Any], x: torch.Tensor) -> CallProfiled:
    with capture_events(break_programs.__file__):
        compiled = torch.compile(program, backend="eager")
        compiled(x)
        return profile_call(lambda: compiled(x), lambda: None, (), ())


def eager(profiled: CallProfiled) -> dict[str, int]:
    return {part.name: part.launches for part in profiled.parts if part.kind == "eager op"}


def test_an_op_between_two_graphs_is_eager_although_torchs_region_contains_it():
    profiled = profile(break_programs.calls_a_disabled_function, torch.ones(4, 4))
    assert eager(profiled) == {"aten.add": 1}
    assert profiled.region_entries == 2


def test_a_whole_graph_has_no_eager_ops():
    profiled = profile(break_programs.appends_to_a_list, torch.ones(4, 4))
    assert (eager(profiled), profiled.region_entries) == ({}, 1)
    assert any(part.kind == "library" for part in profiled.parts)


def test_all_ops_of_a_skipped_frame_are_eager():
    profiled = profile(break_programs.breaks_in_a_loop, torch.ones(4, 4))
    assert eager(profiled) == {"aten.sin": 3, "aten.cos": 1}
    assert profiled.region_entries == 0


def test_the_state_is_reset_after_each_call():
    calls: list[str] = []
    with capture_events(break_programs.__file__):
        profile_call(lambda: calls.append("call"), lambda: calls.append("reset"), (), ())
    assert calls == ["call", "reset"] * (len(calls) // 2)


def test_profiling_restores_the_graphs():
    with capture_events(break_programs.__file__), warnings.catch_warnings():
        compiled = torch.compile(break_programs.appends_to_a_list, backend="eager")
        compiled(torch.ones(4))
        scope = break_programs.__dict__
        before = {name: value for name, value in scope.items() if name.startswith("__compiled_fn")}
        profile_call(lambda: compiled(torch.ones(4)), lambda: None, (), ())
        assert before
        assert {name: scope[name] for name in before} == before


def test_a_torch_without_the_hook_raises(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(eager_ops, "_graphs", None)
    with pytest.raises(eager_ops.GraphsUnknownError, match="install_global_unsafe"):
        profile_call(lambda: None, lambda: None, (), ())
