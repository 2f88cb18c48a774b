"""Expressions that can be computed unconditionally, and conditions as tensors."""

from __future__ import annotations

import ast
from functools import reduce

from tcexplore.fixes.syntax_source import SyntaxSource

_PLAIN = (
    ast.Name, ast.Constant, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Subscript, ast.Slice,
    ast.Tuple, ast.List, ast.keyword, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip
_RANDOM = ("rand", "dropout", "bernoulli", "multinomial", "normal", "poisson", "seed")
_SYNCHRONIZING = frozenset({"item", "tolist", "numpy", "backward", "cpu", "cuda"})
_LIBRARIES = ("torch.",)


def pure(source: SyntaxSource, node: ast.expr) -> bool:
    """Return whether an expression only calls torch ops without randomness, mutation or synchronization."""
    return all(isinstance(part, _PLAIN) for part in ast.walk(node)) and all(
        _op(source, part) for part in ast.walk(node) if isinstance(part, ast.Call)
    )


def _op(source: SyntaxSource, call: ast.Call) -> bool:
    """Return whether a call is a torch function, or a method that may be a tensor's."""
    name, function = source.dotted(call.func), call.func
    last = name.rpartition(".")[2] or (function.attr if isinstance(function, ast.Attribute) else "")
    if not last or last.endswith("_") or last in _SYNCHRONIZING or any(word in last for word in _RANDOM):
        return False
    return name.startswith(_LIBRARIES) or (isinstance(function, ast.Attribute) and not _on_self(function))


def _on_self(function: ast.Attribute) -> bool:
    """Return whether this is `self.name(...)`: a module or method, which may do anything."""
    return isinstance(function.value, ast.Name) and function.value.id in ("self", "cls")


def tensor_condition(source: SyntaxSource, test: ast.expr) -> str | None:
    """Return the condition as an expression whose value is a tensor; None if that is not safe."""
    test = _unwrapped(test)
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = tensor_condition(source, operand)
            return inner and f"{source.torch}.logical_not({inner})"
        case ast.BoolOp(op=op, values=values):
            parts = [tensor_condition(source, value) for value in values]
            name = "logical_and" if isinstance(op, ast.And) else "logical_or"
            return reduce(lambda one, other: f"{source.torch}.{name}({one}, {other})", parts) if all(parts) else None
        case ast.Compare(left=left, ops=[op], comparators=[right]) if isinstance(op, ast.Gt | ast.GtE | ast.Lt | ast.LtE | ast.Eq | ast.NotEq):  # fmt: skip # noqa: E501
            sides = [_unwrapped(side) for side in (left, right)]
            if not all(pure(source, side) for side in sides):
                return None
            between = source.text[source.end(left) : source.start(right)]
            return f"{source.of(sides[0])}{between}{source.of(sides[1])}"
        case ast.Call() if _allclose(source, test):
            arguments = source.text[source.end(test.func) : source.end(test)]
            return f"{source.torch}.isclose{arguments}.all()"
    return source.of(test) if isinstance(test, ast.Call | ast.Name) and pure(source, test) else None


def _unwrapped(node: ast.expr) -> ast.expr:
    """Return an expression without `.item()`, `bool()` and `float()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="item"), args=[]):
            return _unwrapped(value)
        case ast.Call(func=ast.Name(id="bool" | "float"), args=[value], keywords=[]):
            return _unwrapped(value)
    return node


def _allclose(source: SyntaxSource, call: ast.Call) -> bool:
    return source.dotted(call.func) == "torch.allclose"
