"""Which expressions can be computed although they might not be needed: they do nothing but give a value."""

from __future__ import annotations

import ast

from tcexplore.fixes.syntax_source import SyntaxSource

_PLAIN = (
    ast.Name, ast.Constant, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Subscript, ast.Slice,
    ast.Tuple, ast.List, ast.keyword, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip
_DRAWS = ("rand", "dropout", "bernoulli", "multinomial", "normal", "poisson", "seed")
_ASKS = frozenset({"item", "tolist", "numpy", "backward", "cpu", "cuda"})
_LIBRARIES = ("torch.",)


def pure(source: SyntaxSource, node: ast.expr) -> bool:
    """Whether an expression only calls ops of torch that draw nothing, change nothing and ask for no value."""
    return all(isinstance(part, _PLAIN) for part in ast.walk(node)) and all(
        _op(source, part) for part in ast.walk(node) if isinstance(part, ast.Call)
    )


def _op(source: SyntaxSource, call: ast.Call) -> bool:
    """A function of torch, or a method of some value by a name that tensors' methods have."""
    name, function = source.dotted(call.func), call.func
    last = name.rpartition(".")[2] or (function.attr if isinstance(function, ast.Attribute) else "")
    if not last or last.endswith("_") or last in _ASKS or any(word in last for word in _DRAWS):
        return False
    return name.startswith(_LIBRARIES) or (isinstance(function, ast.Attribute) and not _of_self(function))


def _of_self(function: ast.Attribute) -> bool:
    """A call of `self.name(...)`: a module, or a method, that may do anything."""
    return isinstance(function.value, ast.Name) and function.value.id in ("self", "cls")
