from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tcexplore import events as ev
from tcexplore.capture.dynamo.recompiles import FailedGuards
from tcexplore.capture.user_files import UserFiles
from tcexplore.documents.strip import verdict_row
from tcexplore.events import GraphCaptured, Recompiled
from tcexplore.session import Session
from tcexplore.session.recompile_fixes import BREAK, TENSOR, UNSPEC_INT, recompile_fixes
from tcexplore.session.snapshot import Snapshot, start_snapshot
from tests.capture import guard_programs, recompile_cases
from tests.capture.dynamo_capture import capture, capture_events, hook_failures, line_number, location_of, select

pytestmark = pytest.mark.torch

X = torch.ones(4, 4)
with torch.inference_mode():
    INFERENCE = torch.ones(4, 4)


def recompile_after(change: Callable[[], Any], program: Callable[..., Any]) -> Recompiled:
    """Return the recompile caused by a change between two equal calls."""
    with capture_events(guard_programs.__file__) as events:
        compiled = torch.compile(program, backend="eager")
        compiled(X)
        change()
        compiled(X)
    (recompile,) = select(Recompiled, events)
    return recompile


def snapshot_of(events: list[ev.Event]) -> Snapshot:
    """Return the run of the guard programs that has these events."""
    file = guard_programs.__file__
    snapshot = start_snapshot(ev.Job(run=0, file=file, source=Path(file).read_text()))
    for event in events:
        snapshot = snapshot.apply(event)
    return snapshot


def nested(*sizes: int) -> list[torch.Tensor]:
    return [torch.full((4,), float(size)) for size in sizes]


@pytest.mark.parametrize(
    ("program", "first", "second", "old", "new", "text"),
    [
        (guard_programs.plain, (X,), (torch.ones(5, 4),), "4", "5", "Dimension 0 of `x` is 5"),
        (guard_programs.plain, (X,), (torch.ones(4, 4, 4),), "2", "3", "3 dimensions"),
        (guard_programs.plain, (X,), (X.double(),), "f32", "f64", "dtype of `x` is f64"),
        (guard_programs.plain, (torch.ones(4, 6),), (torch.ones(6, 4).t(),), "6", "1", "stride of `x`"),
        (guard_programs.plain, (X,), (X.clone().requires_grad_(),), "requires_grad=False", "requires_grad=True", "`x`"),
        (
            guard_programs.plain,
            (X,),
            (X.to("meta"),),
            "CPU, AutogradCPU",
            "Meta, AutogradMeta",
            "another kind of tensor",
        ),
        (guard_programs.plain, (X,), (INFERENCE,), "a normal tensor", "an inference tensor", "another kind of tensor"),
        (guard_programs.multiplies, (X, 3), (X, 4), "3", "4", "`k` is 4; it was compiled for 3."),
        (guard_programs.multiplies, (X, 2.5), (X, 3.5), "2.5", "3.5", "`k` is 3.5"),
        (guard_programs.takes_a_flag, (X, True), (X, False), "True", "False", "`flag` is False"),
        (guard_programs.takes_none, (X,), (X, X + 1), "None", "f32[4, 4] cpu, contiguous", "`mask` is f32"),
        (guard_programs.adds_all, (X, nested(1, 2)), (X, nested(1, 2, 3)), "2", "3", "`len(rows)` is 3"),
        (guard_programs.first_of, (X, [1, 2]), (X, (1, 2)), "list", "tuple", "`rows` is tuple"),
        (
            guard_programs.calls,
            (X, guard_programs.plus_one),
            (X, guard_programs.plus_two),
            "another function",
            "plus_two",
            "`function`",
        ),
    ],
)
def test_the_cause_of_a_changed_argument(
    program: Callable[..., Any], first: tuple[Any, ...], second: tuple[Any, ...], old: str, new: str, text: str
):
    events = capture(program, first, second)
    assert hook_failures(events) == []
    (recompile,) = select(Recompiled, events)
    assert (recompile.graph, recompile.failed_entry) == ("0/1", "0/0")
    assert (recompile.old, recompile.new) == (old, new)
    assert text in recompile.reason
    assert (recompile.entry_count, recompile.limit, recompile.limit_hit) == (
        2,
        torch._dynamo.config.recompile_limit,
        False,
    )
    assert recompile.location.function == program.__name__
    assert recompile.location.file == guard_programs.__file__
    assert [graph.graph for graph in select(GraphCaptured, events)] == ["0/0", "0/1"]


def test_a_changed_attribute_of_the_module():
    model = guard_programs.Scaled()
    recompile = recompile_after(lambda: setattr(model, "scale", 3), model)
    assert (recompile.failed_guard, recompile.old, recompile.new) == ("self.scale == 2", "2", "3")
    assert recompile.location == location_of(guard_programs.Scaled.forward, "self.scale")


def test_an_attribute_of_a_module_in_a_compiled_container_has_the_path_in_that_container():
    model = torch.nn.Sequential(guard_programs.Scaled(), torch.nn.GELU())
    recompile = recompile_after(lambda: setattr(model[0], "scale", 3), model)
    assert (recompile.name, recompile.origin) == ("self.0.scale", "attribute")
    assert (recompile.failed_guard, recompile.old, recompile.new) == ("self.0.scale == 2", "2", "3")
    assert recompile.location == location_of(guard_programs.Scaled.forward, "self.scale")


def test_the_size_of_an_argument_is_no_attribute():
    calls = [(torch.ones(n, 4),) for n in (4, 5, 8)]
    recompiles = select(Recompiled, capture(guard_programs.looks_at_the_shape, *calls))
    assert {recompile.origin for recompile in recompiles} == {"argument"}
    assert "x.size()[0]" in recompiles[1].name


def test_a_guard_without_a_frame_has_no_line_and_no_origin():
    guards = FailedGuards(UserFiles(guard_programs.__file__))
    read = guards.read("0/0: L['x'] == 3", FailedGuards, None, {"x": 4}, "0/1", "0/0")
    assert (read.failed_guard, read.location, read.origin) == ("x == 3", None, "")


def test_a_switch_from_train_to_eval():
    model = guard_programs.Scaled()
    recompile = recompile_after(model.eval, model)
    assert recompile.reason == "`self.dropout.training` is False; it was compiled for True."
    assert recompile.location == location_of(guard_programs.Scaled.forward, "self.dropout")


def test_a_changed_global(monkeypatch: pytest.MonkeyPatch):
    recompile = recompile_after(lambda: monkeypatch.setattr(guard_programs, "SCALE", 7), guard_programs.uses_a_global)
    assert (recompile.failed_guard, recompile.old, recompile.new) == ("SCALE == 3", "3", "7")


def test_a_changed_closure():
    cell = [2]
    recompile = recompile_after(lambda: cell.__setitem__(0, 7), guard_programs.with_closure(cell))
    assert (recompile.failed_guard, recompile.old, recompile.new) == ("k[0] == 2", "2", "7")


def test_a_guard_of_library_code_has_the_line_that_reads_the_value():
    model = torch.nn.Sequential(torch.nn.GELU())
    model.register_forward_pre_hook(guard_programs.doubled)
    with capture_events(guard_programs.__file__) as events:
        compiled = torch.compile(model, backend="eager")
        compiled(torch.ones(2, 8))
        compiled(torch.ones(3, 8))
    (recompile,) = select(Recompiled, events)
    assert (recompile.name, recompile.old, recompile.new) == ("args[0]", "2", "3")
    assert recompile.location == location_of(guard_programs.doubled, "args[0]")


def test_a_number_carried_over_a_break_is_avoided_by_removing_that_break():
    program = guard_programs.scaled_twice_by_its_maximum
    events = capture(program, (X,), (X + 1,))
    on_stack, local = select(Recompiled, events)
    assert (on_stack.origin, on_stack.kind, on_stack.old, on_stack.new) == ("break", "float", "1.0", "2.0")
    assert on_stack.reason == "The value carried over the break is 2.0; it was compiled for 1.0."
    assert local.name == "largest"

    snapshot = snapshot_of(events)
    fixes = recompile_fixes(snapshot)
    assert [(fix.kind, fix.graphs) for fix in fixes] == [(BREAK, (on_stack.graph,)), (BREAK, (local.graph,))]
    assert [fix.location.line for fix in fixes] == [line_number(program, ".item()")] * 2
    elsewhere = [replace(each, location=ev.Location(guard_programs.__file__, 1)) for each in snapshot.breaks]
    assert [fix.name for fix in recompile_fixes(replace(snapshot, breaks=tuple(elsewhere)))] == [on_stack.name]


def test_an_argument_that_only_a_resume_function_uses_can_be_a_tensor():
    (fix,) = recompile_fixes(snapshot_of(capture(guard_programs.scaled_after_a_break, (X, 0.5), (X, 0.25))))
    assert (fix.kind, fix.name, fix.graphs) == (TENSOR, "scale", ("1/1",))
    changed = snapshot_of(capture(guard_programs.scaled_by_a_tenth_after_a_break, (X, 0.5), (X, 0.25)))
    assert [recompile.graph for recompile in changed.recompiles] == ["0/1", "1/1"]
    assert [fix.graphs for fix in recompile_fixes(changed)] == [("0/1",)], "the resume function gets another value"


def layers(number: int) -> list[guard_programs.Scaled]:
    """Return layers that differ in an integer only, as the `layer_idx` of a Transformer's."""
    made = [guard_programs.Scaled() for _ in range(number)]
    for index, layer in enumerate(made, 2):
        layer.scale = index
    return made


def run_of_layers(number: int) -> Snapshot:
    with capture_events(guard_programs.__file__) as events:
        for layer in layers(number):
            torch.compile(layer, backend="eager")(X)
    return snapshot_of(events)


def test_layers_with_different_integers_are_offered_dynamic_integers():
    (fix,) = recompile_fixes(run_of_layers(4))
    assert (fix.kind, fix.name, fix.graphs) == (UNSPEC_INT, "self.scale", ("0/1", "0/2", "0/3"))
    assert recompile_fixes(run_of_layers(2)) == (), "a second value alone may be the only other one"
    with torch._dynamo.config.patch(allow_unspec_int_on_nn_module=True):
        assert len(run_of_layers(4).graphs) == 2, "the fix does what it says"


def test_the_headline_says_that_calls_run_eagerly_at_the_limit():
    with torch._dynamo.config.patch(recompile_limit=2):
        texts = [verdict_row(Session(runs=(run_of_layers(number),)), 200).text for number in (4, 2)]
    assert ["recompile limit reached" in text for text in texts] == [True, False]
    assert all("↻ 1 recompile" in text and "recompiles" not in text for text in texts), (
        "the call at the limit is no recompile"
    )


def test_only_arguments_are_offered_to_be_marked_dynamic():
    calls = (X, X), (torch.ones(5, 4), torch.ones(5, 4))
    fixes = recompile_fixes(snapshot_of(capture(guard_programs.sized_after_a_break, *calls)))
    marked = {name for fix in fixes for name, _ in ((fix.name, fix.dim), *fix.other_sizes)}
    assert fixes
    assert marked <= {"x", "y"}


def test_a_changed_grad_mode_is_explained():
    with capture_events(guard_programs.__file__) as events:
        compiled = torch.compile(guard_programs.plain, backend="eager")
        compiled(X)
        with torch.no_grad():
            compiled(X)
    (recompile,) = select(Recompiled, events)
    assert (recompile.old, recompile.new) == ("on", "off")
    assert "with gradients on" in recompile.reason
    assert "torch.no_grad()" in recompile.reason
    assert recompile.location.function == "plain"


def test_a_recompile_names_the_entry_that_differs_only_in_the_backend():
    with capture_events(guard_programs.__file__) as events:
        first, second = (torch.compile(guard_programs.plain, backend=backend) for backend in ("eager", "aot_eager"))
        first(X)
        first(X.double())
        second(X)
    (recompile,) = [event for event in select(Recompiled, events) if event.graph == "0/2"]
    assert (recompile.kind, recompile.failed_entry, recompile.failed_guard) == ("backend", "0/0", "")


def test_a_failed_condition_on_a_dynamic_size():
    calls = [(torch.ones(n, 4),) for n in (4, 5, 8)]
    last = [
        event
        for event in select(Recompiled, capture(guard_programs.looks_at_the_shape, *calls))
        if event.graph == "0/2"
    ]
    assert [event.failed_entry for event in last] == ["0/1", "0/0"]
    assert (last[0].new, last[0].location) == ("8", location_of(guard_programs.looks_at_the_shape, "if x.shape"))
    assert "x.size()[0]" in last[0].reason
    assert (last[1].old, last[1].new) == ("4", "8")


def test_an_aliased_argument():
    (recompile,) = select(Recompiled, capture(guard_programs.takes_none, (X, X), (X, X + 1)))
    assert (recompile.old, recompile.new) == ("one object", "two objects")
    assert "`mask`" in recompile.reason


CASES = recompile_cases.all_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_random_recompiles_have_kind_line_and_both_values(case: recompile_cases.Case):
    if case.name.startswith("global"):
        recompile_cases.FACTOR = int(case.old)
    with capture_events(recompile_cases.__file__) as events:
        compiled = torch.compile(case.program, backend="eager")
        compiled(*case.first)
        case.change()
        with torch.no_grad() if case.no_grad else contextlib.nullcontext():
            compiled(*case.second)
    assert hook_failures(events) == []
    (recompile,) = select(Recompiled, events)
    assert (recompile.kind, recompile.old, recompile.new) == (case.kind, case.old, case.new)
    assert recompile.location == location_of(case.function, case.line)


def test_there_are_three_cases_of_each_cause():
    assert len(CASES) == 30
    assert len({case.name.split()[0] for case in CASES}) == 10
