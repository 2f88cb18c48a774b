from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.capture.entry.entry import Call, EntryError
from tcexplore.capture.recompile_check.recompile_answer import RecompileCheck
from tcexplore.capture.recompile_check.typed_inputs import parse_typed_call
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import FrameAnswer
from tcexplore.events.commands import RecompileQuery
from tests.capture import guarded, recompile_check_models
from tests.capture.dynamo import at, watching
from tests.capture.recompile_check_truth import agree, cases

pytestmark = pytest.mark.torch

X = torch.ones(4, 4)


@pytest.mark.parametrize("subject", recompile_check_models.SUBJECTS, ids=lambda subject: subject.name)
def test_the_answer_is_what_really_calling_does(subject: recompile_check_models.Subject):
    found = list(cases(subject, 8, seed=1))
    assert [case for case in found if not agree(case)] == []
    assert len({case.said.verdict for case in found}) > 1 or subject.name == "counting"


def asked(program: Callable[..., Any], first: Call, *inputs: str, train: bool = True) -> FrameAnswer:
    with watching(guarded.__file__):
        compiled = torch.compile(program, backend="eager")
        compiled(*first.args, **first.kwargs)
        check = RecompileCheck(
            compiled,
            (first,),
            UserFiles(guarded.__file__),
            ["0/0"],
            modes=partial(torch.set_grad_enabled, train),
            dynamic=None,
            raises=False,
        )
        answer = check.answer(RecompileQuery(number=1, inputs=inputs))
    assert answer.problem == ""
    return answer.frames[0]


def test_the_guard_that_would_fail_is_named_with_both_values_and_the_line():
    found = asked(guarded.multiplies, Call((X, 2.5)), "f32[4, 4]", "3.5")
    assert (found.verdict, found.graph) == ("recompiles", "")
    (entry,) = found.entries
    assert (entry.graph, entry.failed.old, entry.failed.new, entry.failed.kind) == ("0/0", "2.5", "3.5", "float")
    assert entry.failed.location == at(guarded.multiplies, "return x * k")
    assert found.dynamic == ("k",)


def test_grad_mode_is_that_of_the_call():
    assert asked(guarded.plain, Call((X,)), "f32[4, 4]").verdict == "matches"
    assert asked(guarded.plain, Call((X,)), "f32[4, 4]", train=False).entries[0].failed.kind == "grad mode"


def test_inputs_that_do_not_fit_are_a_problem_and_no_answer():
    with watching(guarded.__file__):
        compiled = torch.compile(guarded.plain, backend="eager")
        compiled(X)
        check = RecompileCheck(
            compiled, (Call((X,)),), UserFiles(""), ["0/0"], modes=torch.enable_grad, dynamic=None, raises=False
        )
        many = check.answer(RecompileQuery(number=1, inputs=("f32[4]", "f32[4]")))
        strange = check.answer(RecompileQuery(number=2, inputs=("q7[4]",)))
    assert "do not fit" in many.problem
    assert "no dtype 'q7'" in strange.problem


def test_what_is_left_as_it_was_stays_the_same_object():
    shared = torch.ones(3, 2).t().requires_grad_()
    call = parse_typed_call(("f32[2, 3]", "f32[2, 4]", "flag=True"), (Call((shared, shared), {"flag": False}),))
    assert call.args[0] is shared
    assert (call.args[1].stride(), call.args[1].requires_grad) == ((1, 2), True)
    assert call.kwargs == {"flag": True}


def test_containers_and_layouts():
    own = [torch.ones(3), {"a": 1}]
    call = parse_typed_call(("[f32[4] grad, {a: 2}]", "f32[2, 3] strides[1, 2]"), (Call((own, 1)),))
    (tensor, mapping), strided = call.args
    assert (tuple(tensor.shape), tensor.requires_grad, mapping, strided.stride()) == ((4,), True, {"a": 2}, (1, 2))
    with pytest.raises(EntryError):
        parse_typed_call(("f32[2] strides[1, 2]",), ())
