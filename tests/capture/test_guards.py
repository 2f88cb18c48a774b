from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.events import Guard, GuardsInstalled
from tests.capture import guard_programs
from tests.capture.dynamo_capture import capture, capture_events, hook_failures, location_of, select

pytestmark = pytest.mark.torch


def guards_of(program: Callable[..., Any], *calls: tuple[Any, ...], **options: Any) -> dict[tuple[str, str], Guard]:
    """Return the guards of the last compiled graph, by kind and source."""
    events = capture(program, *calls, **options)
    assert hook_failures(events) == []
    installed = select(GuardsInstalled, events)[-1]
    assert installed.latency_us > 0
    return {(guard.kind, guard.source): guard for guard in installed.guards}


def test_guards_of_a_module():
    guards = guards_of(guard_programs.Scaled())
    forward = guard_programs.Scaled.forward

    tensor = guards["TENSOR_MATCH", "L['x']"]
    assert (tensor.summary, tensor.structural) == ("f32[4, 4] cpu, contiguous", False)
    assert tensor.location == location_of(forward, "self.norm(x)")
    assert tensor.user_code == "h = self.norm(x)"

    parameter = guards["TENSOR_MATCH", "L['self']._modules['norm']._parameters['weight']"]
    assert (parameter.summary, parameter.structural) == ("f32[4] cpu, contiguous", False)

    scale = guards["EQUALS_MATCH", "L['self'].scale"]
    assert (scale.summary, scale.code, scale.location) == (
        "== 2",
        ("L['self'].scale == 2",),
        location_of(forward, "self.scale"),
    )

    state = guards["GLOBAL_STATE", ""]
    assert state.summary.startswith("grad mode on, autocast off")
    assert not state.structural


def test_structural_guards_are_marked_and_reported():
    guards = guards_of(guard_programs.Scaled())
    assert guards["TYPE_MATCH", "L['self']._modules['norm']"].structural
    assert all(guard.structural for (_, source), guard in guards.items() if "__import_" in source)
    shown = [guard for guard in guards.values() if not guard.structural]
    assert len(shown) < len(guards) / 2
    assert {guard.kind for guard in shown} <= {
        "TENSOR_MATCH", "EQUALS_MATCH", "TRUE_MATCH", "FALSE_MATCH", "GLOBAL_STATE",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("program", "args", "key", "summary"),
    [
        (guard_programs.multiplies, (3,), ("EQUALS_MATCH", "L['k']"), "== 3"),
        (guard_programs.takes_a_flag, (True,), ("TRUE_MATCH", "L['flag']"), "== True"),
        (guard_programs.takes_none, (), ("NONE_MATCH", "L['mask']"), "is None"),
        (guard_programs.adds_all, ([torch.ones(4), torch.zeros(4)],), ("LENGTH_CHECK", "L['rows']"), "length == 2"),
        (guard_programs.first_of, ([1, 2],), ("TYPE_MATCH", "L['rows']"), "type is list"),
        (guard_programs.uses_a_global, (), ("EQUALS_MATCH", "G['SCALE']"), "== 3"),
        (
            guard_programs.calls,
            (guard_programs.plus_one,),
            ("ID_MATCH", "L['function'].__code__"),
            "is the same function",
        ),
    ],
)
def test_guards_of_other_values(program: Callable[..., Any], args: tuple[Any, ...], key: tuple[str, str], summary: str):
    guard = guards_of(program, (torch.ones(4, 4), *args))[key]
    assert (guard.summary, guard.structural) == (summary, False)
    assert guard.location.function == program.__name__


def test_dynamic_sizes_are_symbols_and_their_conditions_are_guards():
    events = capture(guard_programs.looks_at_the_shape, (torch.ones(8, 4),), dynamic=True)
    (installed,) = select(GuardsInstalled, events)
    (tensor,) = (guard for guard in installed.guards if guard.kind == "TENSOR_MATCH")
    assert tensor.summary.startswith("f32[s")
    shapes = {guard.summary: guard for guard in installed.guards if guard.kind == "SHAPE_ENV"}
    assert shapes["7 <= x.size()[0]"].location == location_of(guard_programs.looks_at_the_shape, "if x.shape")
    assert any("sizes 0 and 1" in summary for summary in shapes)
    assert not any(guard.structural for guard in shapes.values())


def test_a_guard_on_a_strided_input_names_the_strides():
    guards = guards_of(guard_programs.plain, (torch.ones(4, 6).t(),))
    assert guards["TENSOR_MATCH", "L['x']"].summary == "f32[6, 4] cpu, strides [1, 6]"


def test_a_guard_of_torchs_own_module_has_the_line_that_calls_it():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    with capture_events(__file__) as events:
        torch.compile(model, backend="eager")(torch.ones(2, 8))
    (installed,) = [event for event in events if isinstance(event, GuardsInstalled)]
    lines = {guard.location and guard.user_code for guard in installed.guards if guard.source}
    assert len(lines) == 1
    assert 'torch.compile(model, backend="eager")(torch.ones(2, 8))' in (lines.pop() or "")
    assert all(guard.location is None for guard in installed.guards if not guard.source), "of the process"
