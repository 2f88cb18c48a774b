"""The test of a branch as an expression whose value is a tensor."""

from __future__ import annotations

import ast
from functools import reduce

from tcexplore.fixes.pure_expressions import pure
from tcexplore.fixes.syntax_source import SyntaxSource


def condition(source: SyntaxSource, test: ast.expr) -> str | None:
    """The test, written so that it gives a tensor; None where that cannot be done safely."""
    test = _bare(test)
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = condition(source, operand)
            return inner and f"{source.torch}.logical_not({inner})"
        case ast.BoolOp(op=op, values=values):
            parts = [condition(source, value) for value in values]
            name = "logical_and" if isinstance(op, ast.And) else "logical_or"
            return reduce(lambda one, other: f"{source.torch}.{name}({one}, {other})", parts) if all(parts) else None
        case ast.Compare(left=left, ops=[op], comparators=[right]) if isinstance(op, ast.Gt | ast.GtE | ast.Lt | ast.LtE | ast.Eq | ast.NotEq):  # fmt: skip # noqa: E501
            sides = [_bare(side) for side in (left, right)]
            if not all(pure(source, side) for side in sides):
                return None
            between = source.text[source.end(left) : source.start(right)]
            return f"{source.of(sides[0])}{between}{source.of(sides[1])}"
        case ast.Call() if _allclose(source, test):
            arguments = source.text[source.end(test.func) : source.end(test)]
            return f"{source.torch}.isclose{arguments}.all()"
    return source.of(test) if isinstance(test, ast.Call | ast.Name) and pure(source, test) else None


def _bare(node: ast.expr) -> ast.expr:
    """What stays when `.item()`, `bool()` and `float()` are taken off."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="item"), args=[]):
            return _bare(value)
        case ast.Call(func=ast.Name(id="bool" | "float"), args=[value], keywords=[]):
            return _bare(value)
    return node


def _allclose(source: SyntaxSource, call: ast.Call) -> bool:
    return source.dotted(call.func) == "torch.allclose"
