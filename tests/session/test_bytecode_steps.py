"""Steps of bytecode: of plain functions under this Python, and of what Dynamo writes under others."""

from __future__ import annotations

import dis
from collections.abc import Callable
from dataclasses import replace
from types import CodeType
from typing import Any

import pytest

from tcexplore.events import FunctionRewritten, Instruction, ResumeFunction
from tcexplore.session.bytecode_steps import bytecode_steps


def function(*instructions: tuple[Any, ...], resumes: tuple[ResumeFunction, ...] = ()) -> FunctionRewritten:
    """Return a function of instructions (opcode, argument, value, line, target), two bytes each."""
    read = tuple(Instruction(2 * index, *instruction) for index, instruction in enumerate(instructions))
    return FunctionRewritten(graph="0/0", name="f", code_name="f", instructions=read, resumes=resumes)


def of(program: Callable[..., Any]) -> FunctionRewritten:
    """Return a function as this Python compiles it."""
    jumps = {*dis.hasjrel, *dis.hasjabs}

    def value(each: dis.Instruction) -> str:
        if each.opname == "KW_NAMES":
            return repr(program.__code__.co_consts[each.arg or 0])
        return each.argval.co_name if isinstance(each.argval, CodeType) else each.argrepr

    read = tuple(
        Instruction(each.offset, each.opname, each.arg, "" if each.opcode in jumps else value(each), 1,
                    each.argval if each.opcode in jumps else None)
        for each in dis.get_instructions(program)
    )  # fmt: skip
    return FunctionRewritten(graph="0/0", name="f", code_name="f", instructions=read)


def texts(written: FunctionRewritten) -> list[str]:
    return [step.text for step in bytecode_steps(written)]


def calls(x: Any) -> Any:
    first(x, key=1)  # type: ignore[name-defined]  # noqa: F821
    x.value = second(*x.args)  # type: ignore[name-defined]  # noqa: F821
    return third(x[0], x.name)  # type: ignore[name-defined]  # noqa: F821


def formats(x: Any) -> Any:
    return f"mean {x.mean():.2f} of {x!r}"


def branches(x: Any) -> Any:
    if x.sum() > 0:
        return left(x)  # type: ignore[name-defined]  # noqa: F821
    return right(x)  # type: ignore[name-defined]  # noqa: F821


def collects(x: Any) -> Any:
    return [x, -x], {"a": x}, (x, 1)


PROGRAMS: list[tuple[Callable[..., Any], list[str]]] = [
    (calls, ["first(x, key=1)", "x.value = second(*x.args)", "return third(x[0], x.name)"]),
    (branches, ["if not x.sum() > 0", "return left(x)", "return right(x)"]),
    (collects, ["return ([x, -x], {'a': x}, (x, 1))"]),
]


@pytest.mark.parametrize(("program", "expected"), PROGRAMS, ids=lambda value: getattr(value, "__name__", None))
def test_plain_functions_are_read_under_this_python(program: Callable[..., Any], expected: list[str]):
    assert texts(of(program)) == expected


def test_formatted_text_names_its_values():
    (text,) = texts(of(formats))
    assert text.startswith("return ")
    assert "x.mean()" in text
    assert "mean " in text


def test_a_branch_goes_to_the_step_of_the_other_way():
    branch, taken, other = bytecode_steps(of(branches))
    assert (branch.kind, branch.goes_to) == ("branch", 2)
    assert (taken.text, other.text) == ("return left(x)", "return right(x)")


RESUME = ResumeFunction(
    "__resume_at_20_1", "torch_dynamo_resume_in_f_at_7", 7,
    ("__nested_resume_fns", "__nested_frame_values", "___stack0", "h"),
)  # fmt: skip

BREAK = (
    ("RESUME", 0),
    ("LOAD_GLOBAL", 1, "NULL + __compiled_fn_1_ab12"),
    ("LOAD_FAST", 0, "x"),
    ("PRECALL", 1),
    ("CALL", 1),
    ("UNPACK_SEQUENCE", 1),
    ("BUILD_LIST", 1),  # the locals of the frame: h
    ("BUILD_LIST", 1),  # the frames
    ("LOAD_GLOBAL", 3, "NULL + print", 7),
    ("LOAD_CONST", 1, "'mean'", 7),
    ("PRECALL", 1, "", 7),
    ("CALL", 1, "", 7),
    ("BUILD_LIST", 1),
    ("COPY", 2),
    ("LOAD_CONST", 2, "0"),
    ("BINARY_SUBSCR",),
    ("LOAD_CONST", 2, "0"),
    ("LOAD_CONST", 2, "0"),
    ("BUILD_SLICE", 2),
    ("STORE_SUBSCR",),
    ("LOAD_GLOBAL", 5, "NULL + __resume_at_20_1"),
    ("SWAP", 3),
    ("STORE_FAST", 1, "tmp_1"),
    ("BUILD_LIST", 0),
    ("BUILD_LIST", 0),
    ("BUILD_LIST", 2),
    ("LOAD_FAST", 1, "tmp_1"),
    ("LOAD_CONST", 3, "-1"),
    ("BINARY_SUBSCR",),
    ("LIST_EXTEND", 1),
    ("CALL_FUNCTION_EX", 0),
    ("RETURN_VALUE",),
)
"""A graph, `print` of line 7, and a call with lists of stacks and locals, as torch 2.13 writes it under Python 3.11."""


def test_a_break_is_the_graph_the_line_and_the_rest():
    graph, line, rest = bytecode_steps(function(*BREAK, resumes=(RESUME,)))
    assert (graph.kind, graph.text, graph.line) == ("graph", "graph_out = graph(x)", None)
    assert (line.kind, line.text, line.line) == ("python", "value = print('mean')", 7)
    assert (rest.kind, rest.text, rest.resumes) == ("resume", "return rest(value, h=graph_out[0])", RESUME)


def test_instructions_that_cannot_be_followed_are_listed():
    listed = texts(function(("LOAD_GLOBAL", 0, "__compiled_fn_1"), ("STRANGE_OP", 3, "thing"), ("POP_TOP",)))
    assert listed == ["STRANGE_OP thing", "POP_TOP"]


def test_handlers_of_exceptions_are_counted():
    steps = texts(function(
        ("LOAD_CONST", 0, "None"), ("RETURN_VALUE",), ("PUSH_EXC_INFO",), ("POP_TOP",), ("RERAISE", 1),
    ))  # fmt: skip
    assert steps == ["return None", "if that raises an exception: 3 instructions to clean up"]


def test_long_expressions_are_cut():
    (step,) = bytecode_steps(function(("LOAD_CONST", 0, "'" + "a" * 500 + "'"), ("RETURN_VALUE",)))
    assert len(step.text) <= 160
    assert step.text.endswith("…")


def test_instructions_that_were_dropped_are_counted():
    cut = replace(function(("LOAD_CONST", 0, "1"), ("RETURN_VALUE",)), dropped=7)
    assert texts(cut)[-1] == "… and 7 more instructions"


def test_small_numbers_of_python_3_14_are_their_argument():
    small = (("LOAD_FAST", 0, "x"), ("LOAD_SMALL_INT", 3, ""), ("BINARY_OP", 26, "[]"), ("RETURN_VALUE",))
    assert texts(function(*small)) == ["return x[3]"]


def test_constant_slices_of_python_3_14_are_ranges():
    def sliced(*rest: tuple[Any, ...], constant: str) -> FunctionRewritten:
        return function(("LOAD_FAST", 0, "x"), *rest, ("LOAD_CONST", 0, constant), ("BINARY_OP", 26, "[]"),
                        ("RETURN_VALUE",))  # fmt: skip

    assert texts(sliced(constant="slice(0, 1, None)")) == ["return x[0:1]"]
    assert texts(sliced(constant="slice(None, None, 2)")) == ["return x[::2]"]
    pair = ("LOAD_FAST", 1, "y"), ("BUILD_LIST", 2, "")
    assert texts(sliced(*pair, constant="slice(1, None, None)")) == ["return [y]"]
