"""Values that Python reads out of tensors (`.item()`, `.tolist()`) or assigns to `.data`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.kinds.dynamo_flags import scalar_flag_fixes
from tcexplore.fixes.text_edit import Edit

CONVERSIONS = {"float": ".detach()", "bool": ""}


def scalar_fixes(site: Site) -> Iterator[Fix]:
    """Keep the tensor, or let Dynamo use a symbol for the number."""
    edits = [
        edit for node in ast.walk(site.statement) if isinstance(node, ast.Call) for edit in _tensor_edits(site, node)
    ]
    if edits and not _controls(site.statement):
        yield Fix(
            "keep it a tensor",
            "The value stays a tensor with one element; still no gradient flows through it.",
            tuple(edits),
            ("Arithmetic uses the tensor's dtype instead of Python's float64.",),
        )
    yield from scalar_flag_fixes(site)


def _controls(statement: ast.stmt) -> bool:
    """Return whether a branch, a loop or the result depends on the number."""
    return isinstance(statement, ast.If | ast.While | ast.For | ast.Return) and not isinstance(
        getattr(statement, "value", None), ast.BinOp
    )


def _tensor_edits(site: Site, call: ast.Call) -> Iterator[Edit]:
    """Yield edits that keep the tensor instead of its number.

    Only computed values qualify: a view of another tensor could be written to later.
    """
    source, function = site.source, call.func
    if isinstance(function, ast.Attribute) and function.attr == "item" and not call.args:
        if _computed(function.value):
            yield Edit(source.end(function.value), source.end(call), ".detach()")
    elif isinstance(function, ast.Name) and function.id in CONVERSIONS and len(call.args) == 1 and not call.keywords:
        inner = call.args[0]
        if _computed(inner) and not _is_item(inner):
            whole = source.of(inner) if isinstance(inner, ast.Call) else f"({source.of(inner)})"
            yield Edit(source.start(call), source.end(call), f"{whole}{CONVERSIONS[function.id]}")


def _is_item(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item"


def _computed(node: ast.expr) -> bool:
    return isinstance(node, ast.Call | ast.BinOp | ast.Compare)


# ---- lists


def list_fixes(site: Site) -> Iterator[Fix]:
    """Use a list of one-element tensors, or symbols."""
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
                ("The tensor must have one dimension: nested lists stay different.",),
            )
            break
    yield from scalar_flag_fixes(site)


# ---- writes to .data


def data_write_fixes(site: Site) -> Iterator[Fix]:
    """Use `detach().copy_(...)`: the values change, the memory stays."""
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
        "write in place",
        "An op of the graph writes the new values into the tensor.",
        edits,
        ("The tensor keeps its memory: tensors that share it see the new values, and the shape must stay.",),
    )


_IN_PLACE: dict[type[ast.operator], str] = {ast.Mult: "mul_", ast.Add: "add_", ast.Sub: "sub_", ast.Div: "div_"}
