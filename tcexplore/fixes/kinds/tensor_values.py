"""Values that Python reads out of tensors (`.item()`, `.tolist()`) or assigns to `.data`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.kinds.dynamo_flags import scalar_flag_fixes
from tcexplore.fixes.text_edit import Edit

NUMBERS = {"float": ".detach()", "bool": ""}


def scalar_fixes(site: Site) -> Iterator[Fix]:
    """Keep the tensor, else let Dynamo keep the number as a symbol."""
    edits = [edit for node in ast.walk(site.statement) if isinstance(node, ast.Call) for edit in _kept(site, node)]
    if edits and not _decides(site.statement):
        yield Fix(
            "keep it a tensor",
            "The value stays a tensor with one element, and no gradient flows through it, as before.",
            tuple(edits),
            ("The arithmetic is done in the tensor's dtype instead of Python's float64.",),
        )
    yield from scalar_flag_fixes(site)


def _decides(statement: ast.stmt) -> bool:
    """Whether the number is what a branch or a loop depends on."""
    return isinstance(statement, ast.If | ast.While | ast.For | ast.Return) and not isinstance(
        getattr(statement, "value", None), ast.BinOp
    )


def _kept(site: Site, call: ast.Call) -> Iterator[Edit]:
    """The edits that put the tensor in the place of its number.

    Only of a value that was computed for it: what is a view of something else could be written to afterwards.
    """
    source, function = site.source, call.func
    if isinstance(function, ast.Attribute) and function.attr == "item" and not call.args:
        if _fresh(function.value):
            yield Edit(source.end(function.value), source.end(call), ".detach()")
    elif isinstance(function, ast.Name) and function.id in NUMBERS and len(call.args) == 1 and not call.keywords:
        inner = call.args[0]
        if _fresh(inner) and not _item(inner):
            whole = source.of(inner) if isinstance(inner, ast.Call) else f"({source.of(inner)})"
            yield Edit(source.start(call), source.end(call), f"{whole}{NUMBERS[function.id]}")


def _item(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item"


def _fresh(node: ast.expr) -> bool:
    return isinstance(node, ast.Call | ast.BinOp | ast.Compare)


# ---- lists


def list_fixes(site: Site) -> Iterator[Fix]:
    """A list of one-element tensors, else symbols."""
    source = site.source
    calls = [n for n in ast.walk(site.statement) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    for call in calls:
        assert isinstance(call.func, ast.Attribute)
        if call.func.attr == "tolist" and not call.args:
            tensor = call.func.value
            edits = (
                Edit(source.start(call), source.start(call), "list("),
                Edit(source.end(tensor), source.end(call), ".detach().unbind())"),
            )
            yield Fix(
                "a list of tensors",
                "The list holds tensors with one element each, instead of numbers.",
                edits,
                ("It must have one dimension: a list of lists is another thing.",),
            )
            break
    yield from scalar_flag_fixes(site)


# ---- writes to .data


def data_write_fixes(site: Site) -> Iterator[Fix]:
    """`detach().copy_(...)`: the values change, the memory stays."""
    source = site.source
    match site.statement:
        case ast.Assign(targets=[ast.Attribute(attr="data", value=owner) as target], value=value):
            edits = (
                Edit(source.end(owner), source.end(target), ".detach().copy_("),
                Edit(source.end(target), source.start(value), ""),
                Edit(source.end(value), source.end(value), ")"),
            )
        case ast.AugAssign(target=ast.Attribute(attr="data", value=owner) as target, op=op, value=value) if _IN_PLACE.get(type(op)):  # fmt: skip # noqa: E501
            edits = (
                Edit(source.end(owner), source.end(target), f".detach().{_IN_PLACE[type(op)]}("),
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


_IN_PLACE: dict[type[ast.operator], str] = {ast.Mult: "mul_", ast.Add: "add_", ast.Sub: "sub_", ast.Div: "div_"}
