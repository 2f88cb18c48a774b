"""Assigning to `.data` of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.text_edit import Edit


def propose(site: Site) -> Iterator[Fix]:
    """`detach().copy_(...)`: the values change, the memory stays."""
    source = site.source
    match site.statement:
        case ast.Assign(targets=[ast.Attribute(attr="data", value=owner) as target], value=value):
            edits = (
                Edit(source.end(owner), source.end(target), ".detach().copy_("),
                Edit(source.end(target), source.start(value), ""),
                Edit(source.end(value), source.end(value), ")"),
            )
        case ast.AugAssign(target=ast.Attribute(attr="data", value=owner) as target, op=op, value=value) if _NAMES.get(type(op)):  # fmt: skip # noqa: E501
            edits = (
                Edit(source.end(owner), source.end(target), f".detach().{_NAMES[type(op)]}("),
                Edit(source.end(target), source.start(value), ""),
                Edit(source.end(value), source.end(value), ")"),
            )
        case _:
            return
    yield Fix(
        "write into it",
        "The new values are written into the tensor by an op of the graph.",
        edits,
        ("The tensor keeps its memory: whatever shares that memory sees the new values, and the shape must stay.",),
    )


_NAMES: dict[type[ast.operator], str] = {ast.Mult: "mul_", ast.Add: "add_", ast.Sub: "sub_", ast.Div: "div_"}
