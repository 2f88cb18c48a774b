"""A loop that goes on for as long as a tensor says so."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.tensor_condition import condition
from tcexplore.fixes.text_edit import Edit

BODY = "loop_body"


def propose(site: Site) -> Iterator[Fix]:
    """`torch.while_loop`, with the loop's own lines as its body."""
    source, loop, torch = site.source, site.statement, site.source.torch
    if not isinstance(loop, ast.While) or loop.orelse or torch is None or not source.alone(loop.body[-1]):
        return
    names, holds = _carried(loop), condition(source, loop.test)
    if not names or holds is None or loop.body[0].lineno == loop.lineno:
        return
    body = BODY
    while body in source.text:
        body += "_"
    given, line = ", ".join(names), source.newline
    passed = given if len(names) > 1 else f"({given},)"
    made = f"{passed} = {torch}.while_loop(lambda {given}: {holds}, {body}, ({given}{',' * (len(names) == 1)}))"
    behind = source.line_start((loop.end_lineno or loop.lineno) + 1)
    ends = "" if source.text[:behind].endswith(("\n", "\r")) else line
    returned = f"{ends}{source.indent(loop.body[0])}return {passed}{line * 2}"
    edits = (
        Edit(source.start(loop), source.end(loop.test), f"def {body}({given})"),
        Edit(behind, behind, f"{returned}{source.indent(loop)}{made}{'' if ends else line}"),
    )
    yield Fix(
        "torch.while_loop",
        "The loop becomes an op of the graph, and runs for as long as the tensor says.",
        edits,
        ("In eager calls torch.while_loop traces its body, too.",),
    )


def _carried(loop: ast.While) -> tuple[str, ...]:
    """The names that go round; none where the loop does anything else than assign to names."""
    found: dict[str, None] = {}
    for statement in loop.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]):
                found[name] = None
            case _:
                return ()
    return tuple(found)
