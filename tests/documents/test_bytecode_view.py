"""What runs in place of a function with a graph break: in its view, in the details of the break, and in the JSON."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore.documents.breaks_view import breaks_document
from tcexplore.documents.bytecode_view import bytecode_document
from tcexplore.documents.document import Builder, Row
from tcexplore.events import FunctionRewritten, Instruction, Location, ResumeFunction
from tcexplore.report.json_report import report
from tcexplore.session import Snapshot
from tcexplore.session.links import break_link
from tests import fakes
from tests.documents.panes import require_stable_rows

CODE = tuple[tuple[str, int | None, str, int | None], ...]


def _function(graph: str, code: CODE, line: int | None, resumes: tuple[ResumeFunction, ...]) -> FunctionRewritten:
    run = fakes.complete(7)
    at = run.breaks[0].location
    assert at is not None
    name = "forward" if line is None else f"torch_dynamo_resume_in_forward_at_{line}"
    return FunctionRewritten(
        graph=graph, name="forward", code_name=name, resumed=line, goes_on=line, number=1 if line else 0,
        frame=Location(at.file, line or at.line - 3, "forward"), resumes=resumes, run=7,
        instructions=tuple(Instruction(2 * n, *instruction) for n, instruction in enumerate(code)),
    )  # fmt: skip


def broken() -> Snapshot:
    """Return a run whose break has the function and its resume function."""
    run = fakes.complete(7)
    at = run.breaks[0].location
    assert at is not None
    resume = ResumeFunction("__resume_at_8_1", f"torch_dynamo_resume_in_forward_at_{at.line}", at.line, (), at.line, 1)
    whole: CODE = (
        ("LOAD_GLOBAL", 1, "NULL + __compiled_fn_1_ab", None), ("LOAD_FAST", 0, "x", None), ("CALL", 1, "", None),
        ("STORE_FAST", 1, "graph_out_0", None), ("LOAD_GLOBAL", 1, "NULL + print", at.line),
        ("LOAD_CONST", 1, "'mean'", at.line), ("CALL", 1, "", at.line), ("POP_TOP", None, "", at.line),
        ("LOAD_GLOBAL", 1, "NULL + __resume_at_8_1", None), ("LOAD_FAST", 1, "graph_out_0", None),
        ("CALL", 1, "", None), ("RETURN_VALUE", None, "", None),
    )  # fmt: skip
    rest: CODE = (
        ("LOAD_GLOBAL", 1, "NULL + __compiled_fn_2_ab", None), ("CALL", 0, "", None), ("RETURN_VALUE", None, "", None),
    )  # fmt: skip
    for event in (_function("0/0", whole, None, (resume,)), _function("1/0", rest, at.line, ())):
        run = run.apply(event)
    return run


def rows(build: Builder, run: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> list[Row]:
    document = build(run, toggled, width)
    require_stable_rows(document)
    return [document.row(index) for index in range(len(document))]


@pytest.mark.parametrize("width", [38, 78, 150])
def test_each_function_is_shown_in_steps_with_the_users_line(width: int):
    run = broken()
    line = run.breaks[0].location.line if run.breaks[0].location else 0
    text = "\n".join(row.text for row in rows(bytecode_document, run, width=width))
    assert f"rest of forward after line {line}" in text
    parts = ["graph_out_0 = graph(x)", f"{line} {run.source.splitlines()[line - 1].strip()}", "print('mean')",
             f"rest after line {line}", "→ graph 1/0", "return graph()"]  # fmt: skip
    assert all(part in text for part in parts), text
    places = [text.index(part) for part in (parts[0], parts[1], parts[2], parts[3])]
    assert places == sorted(places)
    assert "__compiled_fn" not in text, "instructions are folded"


def test_instructions_open_with_names_of_dynamo_explained():
    run = broken()
    folds = {row.fold for row in rows(bytecode_document, run) if row.fold and "instructions" in row.text}
    text = "\n".join(row.text for row in rows(bytecode_document, run, frozenset(folds)))
    assert "LOAD_GLOBAL" in text
    assert "__compiled_fn_1_ab  graph 0/0" in text
    assert "__resume_at_8_1  torch_dynamo_resume_in_forward" in text


def test_the_rows_of_a_function_belong_to_its_break():
    run = broken()
    link = break_link(run.breaks[0])
    shown = rows(bytecode_document, run)
    assert link in next(row for row in shown if "graph(x)" in row.text).links
    assert link in next(row for row in shown if row.text.startswith("▾ rest of forward")).links


def test_the_details_of_a_break_have_its_steps_and_those_of_the_rest():
    run = broken()
    opened = frozenset({row.fold for row in rows(breaks_document, run) if row.fold and "✖" in row.text} - {None})
    fold = next(row.fold for row in rows(breaks_document, run, opened) if "runs in place of forward" in row.text)
    text = "\n".join(row.text for row in rows(breaks_document, run, opened | {fold}))  # type: ignore[arg-type]
    assert text.index("graph_out_0 = graph(x)") < text.index("print('mean')") < text.index("return graph()")
    before = "\n".join(row.text for row in rows(breaks_document, fakes.complete(7), opened))
    assert "runs in place" not in before


def test_the_report_has_the_steps():
    whole, rest = report(broken(), None, keys={"rewritten_functions"})["rewritten_functions"]
    assert (whole["function"], whole["graph"], whole["resumed"], whole["instructions"]) == ("forward", "0/0", None, 12)
    assert [step["kind"] for step in whole["steps"]] == ["graph", "python", "resume"]
    assert whole["steps"][2]["resumes"] == rest["code_name"]
    assert rest["resumed"] == rest["line"]


def test_the_report_has_a_limited_number_of_steps():
    run = broken()
    function = run.rewritten[0]
    pair = (Instruction(0, "LOAD_GLOBAL", 1, "NULL + print", 3), Instruction(0, "CALL", 0, "", 3),
            Instruction(0, "POP_TOP", None, "", 3))  # fmt: skip
    long = replace(run, rewritten=(replace(function, instructions=pair * 400),))
    (reported,) = report(long, None, keys={"rewritten_functions"})["rewritten_functions"]
    assert len(reported["steps"]) == 100
