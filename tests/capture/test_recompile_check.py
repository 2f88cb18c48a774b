from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.capture.compiled_frame import BoundFrame, cache_entries
from tcexplore.capture.dynamo.frame_entries import stopped_compiling
from tcexplore.capture.entry import Call, EntryError, describe_call
from tcexplore.capture.recompile_check import NOT_COMPILED, RecompileCheck, check_entered
from tcexplore.capture.typed_calls import link_sizes, parse_typed_call
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import FrameAnswer
from tcexplore.events.commands import RecompileQuery
from tests.capture import break_programs, guard_programs, recompile_check_models
from tests.capture.dynamo_capture import capture_events, location_of
from tests.capture.recompile_check_truth import agrees, check_cases

pytestmark = pytest.mark.torch

X = torch.ones(4, 4)


@pytest.mark.parametrize("model", recompile_check_models.CHECKED_MODELS, ids=lambda model: model.name)
def test_the_answer_agrees_with_a_real_call(model: recompile_check_models.CheckedModel):
    cases = list(check_cases(model, 8, seed=1))
    assert [case for case in cases if not agrees(case)] == []
    assert len({case.predicted.verdict for case in cases}) > 1 or model.name == "counting"


@pytest.mark.skipif(
    "isolate_recompiles" not in signature(torch.compile).parameters, reason="this torch has no limits per function"
)
@pytest.mark.parametrize("model", recompile_check_models.OPTION_MODELS, ids=lambda model: model.name)
def test_the_answer_agrees_with_a_real_call_of_a_function_compiled_with_options(
    model: recompile_check_models.CheckedModel,
):
    cases = list(check_cases(model, 8, seed=1))
    assert [case for case in cases if not agrees(case)] == []


def check_first_frame(program: Callable[..., Any], first: Call, *inputs: str, train: bool = True) -> FrameAnswer:
    with capture_events(guard_programs.__file__):
        compiled = torch.compile(program, backend="eager")
        compiled(*first.args, **first.kwargs)
        check = RecompileCheck(
            compiled,
            (first,),
            UserFiles(guard_programs.__file__),
            ["0/0"],
            modes=partial(torch.set_grad_enabled, train),
        )
        answer = check.answer(RecompileQuery(number=1, inputs=inputs))
    assert answer.problem == ""
    return answer.frames[0]


def test_the_failing_guard_has_both_values_and_the_line():
    frame = check_first_frame(guard_programs.multiplies, Call((X, 2.5)), "f32[4, 4]", "3.5")
    assert (frame.verdict, frame.graph) == ("recompiles", "")
    (entry,) = frame.entries
    assert (entry.graph, entry.failed.old, entry.failed.new, entry.failed.kind) == ("0/0", "2.5", "3.5", "float")
    assert entry.failed.location == location_of(guard_programs.multiplies, "return x * k")
    assert frame.dynamic == ("k",)


def test_the_check_runs_in_the_grad_mode_of_the_call():
    assert check_first_frame(guard_programs.plain, Call((X,)), "f32[4, 4]").verdict == "matches"
    assert (
        check_first_frame(guard_programs.plain, Call((X,)), "f32[4, 4]", train=False).entries[0].failed.kind
        == "grad mode"
    )


def test_invalid_inputs_are_a_problem():
    with capture_events(guard_programs.__file__):
        compiled = torch.compile(guard_programs.plain, backend="eager")
        compiled(X)
        check = RecompileCheck(compiled, (Call((X,)),), UserFiles(""), ["0/0"], modes=torch.enable_grad)
        too_many = check.answer(RecompileQuery(number=1, inputs=("f32[4]", "f32[4]")))
        unknown_dtype = check.answer(RecompileQuery(number=2, inputs=("q7[4]",)))
    assert "do not fit" in too_many.problem
    assert "no dtype 'q7'" in unknown_dtype.problem


def test_unchanged_inputs_stay_the_same_object():
    shared = torch.ones(3, 2).t().requires_grad_()
    call = parse_typed_call(("f32[2, 3]", "f32[2, 4]", "flag=True"), (Call((shared, shared), {"flag": False}),))
    assert call.args[0] is shared
    assert (call.args[1].stride(), call.args[1].requires_grad) == ((1, 2), True)
    assert call.kwargs == {"flag": True}


def test_inputs_as_they_are_described_on_another_device_can_be_changed():
    """The form offers `f32[16, 4] cuda:0` on a GPU, and the user changes a size in it."""
    original = torch.empty(16, 4, device="meta")
    base = (Call((original,)),)
    assert describe_call(base[0]) == ("f32[16, 4] meta",)
    changed, elsewhere, same = (
        parse_typed_call((text,), base).args[0] for text in ("f32[33, 4] meta", "f32[33, 4] cpu", "f32[16, 4] meta")
    )
    assert (tuple(changed.shape), changed.device.type, elsewhere.device.type) == ((33, 4), "meta", "cpu")
    assert same is original
    strided = parse_typed_call(("f32[33, 4] meta strides[1, 33] grad",), base).args[0]
    assert (strided.stride(), strided.requires_grad) == ((1, 33), True)
    with pytest.raises(EntryError, match="no tensor can be on abc"):
        parse_typed_call(("f32[33, 4] abc",), base)


def test_typed_containers_and_layouts():
    original = [torch.ones(3), {"a": 1}]
    call = parse_typed_call(("[f32[4] grad, {a: 2}]", "f32[2, 3] strides[1, 2]"), (Call((original, 1)),))
    (tensor, mapping), strided = call.args
    assert (tuple(tensor.shape), tensor.requires_grad, mapping, strided.stride()) == ((4,), True, {"a": 2}, (1, 2))
    with pytest.raises(EntryError):
        parse_typed_call(("f32[2] strides[1, 2]",), ())


def test_a_skipped_frame_runs_eagerly(monkeypatch: pytest.MonkeyPatch):
    skipped, compiled = break_programs.breaks_in_a_loop, guard_programs.plain
    frame = check_first_frame(skipped, Call((X,)), "f32[5, 4]")
    assert (frame.verdict, frame.note) == ("eager", NOT_COMPILED)
    with capture_events(guard_programs.__file__):
        for program in (skipped, compiled):
            torch.compile(program, backend="eager")(X)
        # as in a torch that does not report skipped frames
        monkeypatch.delattr("torch._dynamo.convert_frame.CatchErrorsWrapper._handle_skip", raising=False)
        assert [stopped_compiling(program.__code__, -1) for program in (skipped, compiled)] == ["SKIP", ""]


def test_a_compiled_function_that_a_call_enters_has_entries_of_its_own():
    inner = torch.compile(guard_programs.plain, backend="eager")

    @torch.compiler.disable(recursive=False)
    def between(x: torch.Tensor) -> torch.Tensor:
        return inner(x)

    def program(x: torch.Tensor) -> torch.Tensor:
        return between(x.sin()).cos()

    with capture_events(guard_programs.__file__), torch.compiler.set_stance("default"):
        compiled = torch.compile(program, backend=lambda module, _: module.forward)
        compiled(X)
        graphs = [str(entry.compile_id) for entry in cache_entries(guard_programs.plain.__code__)]
        check = RecompileCheck(compiled, (Call((X,)),), UserFiles(""), graphs, modes=torch.enable_grad)
        answer = check.answer_by_call(RecompileQuery(number=1, inputs=("f32[4, 4]",)))
    assert [(frame.verdict, frame.graph) for frame in answer.frames[1:]] == [("matches", graphs[0])]


def test_an_error_of_the_check_is_not_taken_for_the_programs():
    def program(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.arange(4)[index] + x

    seen: list[object] = []

    def fails(frame: BoundFrame) -> FrameAnswer:
        seen.append(frame.scope["index"].tolist())
        raise KeyError("entry")

    old, new = (Call((torch.ones(1), torch.tensor(values))) for values in ([3, 2], [9, 9, 9]))
    with torch.compiler.set_stance("default"), pytest.raises(KeyError, match="entry"):
        check_entered(torch.compile(program), new, old, {program.__code__}, fails)
    assert [3, 2, 3] in seen, "a new tensor has values that the old one had"


def test_equal_sizes_of_other_inputs_change_with_a_size():
    texts = ("ids=i64[2, 16]", "mask=f32[2, 16]", "0.1")
    assert link_sizes(texts, ("ids=i64[2, 17]", *texts[1:])) == ("ids=i64[2, 17]", "mask=f32[2, 17]", "0.1")
    assert link_sizes(texts, ("ids=i64[3, 16]", *texts[1:])) == ("ids=i64[3, 16]", "mask=f32[3, 16]", "0.1")
    own = ("ids=i64[2, 17]", "mask=f32[2, 5]", "0.1")
    assert link_sizes(texts, own) == own
    assert link_sizes(texts, texts[:1]) == texts[:1]
    nested = ("[f32[4], f32[16]]", "f32[16]")
    assert link_sizes(nested, ("[f32[4], f32[8]]", "f32[16]")) == ("[f32[4], f32[8]]", "f32[8]")
