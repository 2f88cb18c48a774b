from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.events import Guard, GuardsInstalled
from tests.capture import guarded
from tests.capture.dynamo import at, broken, of, run

pytestmark = pytest.mark.torch


def guards(program: Callable[..., Any], *calls: tuple[Any, ...], **options: Any) -> dict[tuple[str, str], Guard]:
    """The guards of the last graph that is compiled, by kind and source."""
    events = run(program, *calls, **options)
    assert broken(events) == []
    installed = of(GuardsInstalled, events)[-1]
    assert installed.latency_us > 0
    return {(guard.kind, guard.source): guard for guard in installed.guards}


def test_a_modules_guards():
    found = guards(guarded.Scaled())
    forward = guarded.Scaled.forward

    tensor = found["TENSOR_MATCH", "L['x']"]
    assert (tensor.summary, tensor.structural) == ("f32[4, 4] cpu, contiguous", False)
    assert tensor.location == at(forward, "self.norm(x)")
    assert tensor.user_code == "h = self.norm(x)"

    parameter = found["TENSOR_MATCH", "L['self']._modules['norm']._parameters['weight']"]
    assert (parameter.summary, parameter.structural) == ("f32[4] cpu, contiguous", False)

    scale = found["EQUALS_MATCH", "L['self'].scale"]
    assert (scale.summary, scale.code, scale.location) == ("== 2", ("L['self'].scale == 2",), at(forward, "self.scale"))

    state = found["GLOBAL_STATE", ""]
    assert state.summary.startswith("grad mode on, autocast off")
    assert not state.structural


def test_structural_guards_are_marked_and_reported():
    found = guards(guarded.Scaled())
    assert found["TYPE_MATCH", "L['self']._modules['norm']"].structural
    assert all(guard.structural for (_, source), guard in found.items() if "__import_" in source)
    shown = [guard for guard in found.values() if not guard.structural]
    assert len(shown) < len(found) / 2
    assert {guard.kind for guard in shown} <= {
        "TENSOR_MATCH", "EQUALS_MATCH", "TRUE_MATCH", "FALSE_MATCH", "GLOBAL_STATE",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("program", "args", "key", "summary"),
    [
        (guarded.multiplies, (3,), ("EQUALS_MATCH", "L['k']"), "== 3"),
        (guarded.takes_a_flag, (True,), ("TRUE_MATCH", "L['flag']"), "== True"),
        (guarded.takes_none, (), ("NONE_MATCH", "L['mask']"), "is None"),
        (guarded.adds_all, ([torch.ones(4), torch.zeros(4)],), ("LENGTH_CHECK", "L['rows']"), "length == 2"),
        (guarded.first_of, ([1, 2],), ("TYPE_MATCH", "L['rows']"), "type is list"),
        (guarded.uses_a_global, (), ("EQUALS_MATCH", "G['SCALE']"), "== 3"),
        (guarded.calls, (guarded.plus_one,), ("ID_MATCH", "L['function'].__code__"), "is the same function"),
    ],
)
def test_what_is_guarded_besides_tensors(
    program: Callable[..., Any], args: tuple[Any, ...], key: tuple[str, str], summary: str
):
    guard = guards(program, (torch.ones(4, 4), *args))[key]
    assert (guard.summary, guard.structural) == (summary, False)
    assert guard.location.function == program.__name__


def test_sizes_that_may_change_are_symbols_and_their_conditions_are_guards():
    events = run(guarded.looks_at_the_shape, (torch.ones(8, 4),), dynamic=True)
    (installed,) = of(GuardsInstalled, events)
    (tensor,) = (guard for guard in installed.guards if guard.kind == "TENSOR_MATCH")
    assert tensor.summary.startswith("f32[s")
    shapes = {guard.summary: guard for guard in installed.guards if guard.kind == "SHAPE_ENV"}
    assert shapes["7 <= x.size()[0]"].location == at(guarded.looks_at_the_shape, "if x.shape")
    assert any("sizes 0 and 1" in summary for summary in shapes)
    assert not any(guard.structural for guard in shapes.values())


def test_guards_on_a_strided_input_say_so():
    found = guards(guarded.plain, (torch.ones(4, 6).t(),))
    assert found["TENSOR_MATCH", "L['x']"].summary == "f32[6, 4] cpu, strides [1, 6]"
