"""A number made of a tensor where the tensor itself would do."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.kinds import dynamo_flags as settings
from tcexplore.fixes.text_edit import Edit

NUMBERS = {"float": ".detach()", "bool": ""}


def propose(site: Site) -> Iterator[Fix]:
    """Keep the tensor, else let Dynamo keep the number as a symbol."""
    edits = [edit for node in ast.walk(site.statement) if isinstance(node, ast.Call) for edit in _kept(site, node)]
    if edits and not _decides(site.statement):
        yield Fix(
            "keep it a tensor",
            "The value stays a tensor with one element, and no gradient flows through it, as before.",
            tuple(edits),
            ("The arithmetic is done in the tensor's dtype instead of Python's float64.",),
        )
    yield from settings.scalars(site)


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
