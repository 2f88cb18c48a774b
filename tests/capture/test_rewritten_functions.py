"""The bytecode that runs in place of functions with a graph break, from a real Dynamo."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor

from tcexplore.capture.dynamo import rewritten_functions
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Event, FactMissing, FunctionRewritten
from tcexplore.session.bytecode_steps import BytecodeStep, bytecode_steps
from tests.capture import break_programs
from tests.capture.dynamo_capture import line_number, select

pytestmark = pytest.mark.torch


def rewritten(program: Callable[..., Any], *, silenced: bool = False) -> list[FunctionRewritten]:
    torch._dynamo.reset()
    events: list[Event] = []
    hooks = Hooks(events.append)
    rewritten_functions.install(hooks, StructuredTrace(hooks), UserFiles(inspect.getsourcefile(program) or ""))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if silenced:
                with hooks.silenced():
                    torch.compile(program, backend="eager")(torch.ones(4, 4))
            else:
                with contextlib.suppress(Exception):  # the capture must work in any case
                    torch.compile(program, backend="eager")(torch.ones(4, 4))
        assert select(FunctionRewritten, events) == [], "nothing is read while something compiles"
        hooks.run_deferred()
    finally:
        hooks.remove()
        torch._dynamo.reset()
    assert select(FactMissing, events) == []
    return select(FunctionRewritten, events)


def kinds(steps: tuple[BytecodeStep, ...]) -> list[str]:
    return [step.kind for step in steps if step.kind != "other"]


def test_a_break_calls_the_graph_the_line_and_the_rest():
    program = break_programs.prints
    whole, rest = rewritten(program)
    line = line_number(program, "print(")
    assert (whole.name, whole.code_name, whole.resumed) == ("prints", "prints", None)
    assert (rest.name, rest.code_name, rest.resumed) == ("prints", f"torch_dynamo_resume_in_prints_at_{line}", line)
    assert [resume.code_name for resume in whole.resumes] == [rest.code_name]
    assert rest.resumes == ()
    graph, python, resume = (step for step in bytecode_steps(whole) if step.kind != "other")
    assert (graph.kind, python.kind, resume.kind) == ("graph", "python", "resume")
    assert graph.text.endswith("graph(x)")
    assert "print('hello')" in python.text
    assert python.line == line
    assert resume.text.startswith("return rest(")
    assert "y=" in resume.text
    assert kinds(bytecode_steps(rest))[0] == "graph"
    assert whole.frame is not None
    assert (whole.frame.file, rest.frame and rest.frame.line) == (inspect.getsourcefile(program), line)


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (break_programs.takes_an_item, "item()"),
        (break_programs.makes_a_list_of_a_tensor, "tolist()"),
        (break_programs.calls_a_disabled_function, "disabled("),
        (break_programs.calls_a_c_extension, "crc32("),
        (break_programs.selects_by_values, "["),
        (break_programs.calls_backward, "backward()"),
    ],
)
def test_the_line_that_breaks_runs_as_python(program: Callable[..., Any], text: str):
    whole = rewritten(program)[0]
    python = [step for step in bytecode_steps(whole) if step.kind in ("python", "resume")]
    assert any(text in step.text for step in python), [step.text for step in bytecode_steps(whole)]


def test_a_branch_on_data_leads_to_two_resume_functions():
    whole, *others = rewritten(break_programs.branches_on_a_tensor)
    steps = bytecode_steps(whole)
    branch = next(step for step in steps if step.kind == "branch")
    assert branch.line == line_number(break_programs.branches_on_a_tensor, "if y.sum")
    assert branch.goes_to is not None
    ways = [step.resumes for step in steps if step.kind == "resume"]
    lines = [line_number(break_programs.branches_on_a_tensor, text) for text in ("return y.cos()", "return y - 1")]
    assert [way.goes_on for way in ways if way] == lines
    assert [way.code_name for way in ways if way] == [whole.resumes[0].code_name] * 2
    assert [rest.number for rest in others] == [way.number for way in ways[:1] if way], "the way that was taken"
    assert [rest.goes_on for rest in others] == lines[:1]
    assert [step.kind for step in steps[branch.goes_to :]].count("resume") == 1


def closes_over(x: Tensor) -> Tensor:
    scale = 2

    def inner(y: Tensor) -> Tensor:
        return y * scale

    print("closure")  # noqa: T201
    return inner(x.sin())


@pytest.mark.parametrize(
    "program",
    [value for value in vars(break_programs).values() if inspect.isfunction(value) and value.__module__ ==
     break_programs.__name__ and list(inspect.signature(value).parameters) == ["x"]] + [closes_over],
    ids=lambda program: program.__name__,
)  # fmt: skip
def test_every_instruction_of_the_capture_is_followed(program: Callable[..., Any]):
    """No opcode is listed as it is: the expressions stand for all instructions under this Python and torch."""
    for function in rewritten(program):
        steps = bytecode_steps(function)
        known = {instruction.op for instruction in function.instructions}
        assert not [step.text for step in steps if step.text.split(" ")[0] in known]
        assert steps[-1].kind in ("resume", "return", "graph", "python", "other")


def test_programs_without_a_break_and_compiles_of_tcexplore_itself_have_none():
    assert rewritten(break_programs.passes_through) == []
    assert rewritten(break_programs.prints, silenced=True) == []
