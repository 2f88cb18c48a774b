from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.events import GraphCaptured, Recompiled
from tests.capture import guarded
from tests.capture.dynamo import at, broken, of, run, watching

pytestmark = pytest.mark.torch

X = torch.ones(4, 4)


def after(change: Callable[[], Any], program: Callable[..., Any]) -> Recompiled:
    """The recompile that a change between two equal calls makes."""
    with watching(guarded.__file__) as events:
        compiled = torch.compile(program, backend="eager")
        compiled(X)
        change()
        compiled(X)
    (found,) = of(Recompiled, events)
    return found


def nested(*sizes: int) -> list[torch.Tensor]:
    return [torch.full((4,), float(size)) for size in sizes]


@pytest.mark.parametrize(
    ("program", "first", "second", "old", "new", "words"),
    [
        (guarded.plain, (X,), (torch.ones(5, 4),), "4", "5", "Dimension 0 of `x` is 5"),
        (guarded.plain, (X,), (torch.ones(4, 4, 4),), "2", "3", "3 dimensions"),
        (guarded.plain, (X,), (X.double(),), "f32", "f64", "dtype of `x` is f64"),
        (guarded.plain, (torch.ones(4, 6),), (torch.ones(6, 4).t(),), "6", "1", "stride of `x`"),
        (guarded.plain, (X,), (X.clone().requires_grad_(),), "requires_grad=False", "requires_grad=True", "`x`"),
        (guarded.plain, (X,), (X.to("meta"),), "CPU, AutogradCPU", "Meta, AutogradMeta", "another kind of tensor"),
        (guarded.multiplies, (X, 3), (X, 4), "3", "4", "`k` is 4; it was compiled for 3."),
        (guarded.multiplies, (X, 2.5), (X, 3.5), "2.5", "3.5", "`k` is 3.5"),
        (guarded.takes_a_flag, (X, True), (X, False), "True", "False", "`flag` is False"),
        (guarded.takes_none, (X,), (X, X + 1), "None", "f32[4, 4] cpu, contiguous", "`mask` is f32"),
        (guarded.adds_all, (X, nested(1, 2)), (X, nested(1, 2, 3)), "2", "3", "`len(rows)` is 3"),
        (guarded.first_of, (X, [1, 2]), (X, (1, 2)), "list", "tuple", "`rows` is tuple"),
        (guarded.calls, (X, guarded.plus_one), (X, guarded.plus_two), "another function", "plus_two", "`function`"),
    ],
)
def test_what_a_call_brought_that_the_compiled_code_was_not_made_for(
    program: Callable[..., Any], first: tuple[Any, ...], second: tuple[Any, ...], old: str, new: str, words: str
):
    events = run(program, first, second)
    assert broken(events) == []
    (found,) = of(Recompiled, events)
    assert (found.graph, found.failed_entry) == ("0/1", "0/0")
    assert (found.old, found.new) == (old, new)
    assert words in found.reason
    assert (found.entry_count, found.limit, found.limit_hit) == (2, torch._dynamo.config.recompile_limit, False)
    assert found.location.function == program.__name__
    assert found.location.file == guarded.__file__
    assert [graph.graph for graph in of(GraphCaptured, events)] == ["0/0", "0/1"]


def test_an_attribute_of_the_module():
    model = guarded.Scaled()
    found = after(lambda: setattr(model, "scale", 3), model)
    assert (found.failed_guard, found.old, found.new) == ("self.scale == 2", "2", "3")
    assert found.location == at(guarded.Scaled.forward, "self.scale")


def test_train_and_eval():
    model = guarded.Scaled()
    found = after(model.eval, model)
    assert found.reason == "`self.dropout.training` is False; it was compiled for True."
    assert found.location == at(guarded.Scaled.forward, "self.dropout")


def test_a_global(monkeypatch: pytest.MonkeyPatch):
    found = after(lambda: monkeypatch.setattr(guarded, "SCALE", 7), guarded.uses_a_global)
    assert (found.failed_guard, found.old, found.new) == ("SCALE == 3", "3", "7")


def test_a_closure():
    cell = [2]
    found = after(lambda: cell.__setitem__(0, 7), guarded.with_closure(cell))
    assert (found.failed_guard, found.old, found.new) == ("k[0] == 2", "2", "7")


def test_grad_mode_is_explained():
    with watching(guarded.__file__) as events:
        compiled = torch.compile(guarded.plain, backend="eager")
        compiled(X)
        with torch.no_grad():
            compiled(X)
    (found,) = of(Recompiled, events)
    assert (found.old, found.new) == ("on", "off")
    assert "with gradients on" in found.reason
    assert "torch.no_grad()" in found.reason
    assert found.location.function == "plain"


def test_a_condition_on_a_dynamic_size():
    calls = [(torch.ones(n, 4),) for n in (4, 5, 8)]
    last = [event for event in of(Recompiled, run(guarded.looks_at_the_shape, *calls)) if event.graph == "0/2"]
    assert [event.failed_entry for event in last] == ["0/1", "0/0"]
    assert (last[0].new, last[0].location) == ("8", at(guarded.looks_at_the_shape, "if x.shape"))
    assert "x.size()[0]" in last[0].reason
    assert (last[1].old, last[1].new) == ("4", "8")


def test_the_same_tensor_twice_and_then_two():
    (found,) = of(Recompiled, run(guarded.takes_none, (X, X), (X, X + 1)))
    assert (found.old, found.new) == ("one object", "two objects")
    assert "`mask`" in found.reason
