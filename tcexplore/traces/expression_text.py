"""Statements of FX graphs as torch prints them: opcode, target, arguments and inputs of one node."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import NamedTuple

MAX_VALUE_LENGTH = 60
MAX_ITEMS = 16

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitAnd: "and_",
    ast.BitOr: "or_", ast.BitXor: "xor", ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt",
    ast.GtE: "ge", ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert", ast.Not: "not_",
}  # fmt: skip
"""Functions of the module `operator`."""

_PREFIXES = (
    ("torch.ops.", ""),
    ("torch.functional.", "torch."),
    ("torch__dynamo_utils_", "torch._dynamo.utils."),
    ("torch__dynamo_variables_builtin_", "torch._dynamo.variables.builtin."),
    ("torch_Tensor_", "torch.Tensor."),
    ("_operator.", ""),
    ("_operator_", ""),
    ("operator.", ""),
)
"""Beginnings of printed names, with those of the public names."""

_ALIASED = re.compile(
    r"^torch\.(conv(?:_transpose)?[123]d|conv_tbc|avg_pool1d|adaptive_avg_pool1d|pixel_(?:un)?shuffle|channel_shuffle"
    r"|native_channel_shuffle|prelu|bilinear|pairwise_distance|cosine_similarity|pdist|hardshrink|logsigmoid)$"
)
"""Builtins of `torch` that `torch.nn.functional` has under the same name."""

_FUNCTIONAL = re.compile(
    r"^torch\._C\._nn\.((?!_?upsample_|col2im|im2col|cross_entropy_loss|nll_loss_nd|log_sigmoid)\w+)$"
)
"""Builtins of `torch._C._nn` that `torch.nn.functional` has under the same name."""


class Expression(NamedTuple):
    """The right side of a statement."""

    op: str
    """FX opcode."""
    target: str
    args: str
    inputs: tuple[str, ...]


def read_expression(code: str, nodes: Collection[str]) -> Expression:
    """Return the node that an expression computes; `nodes` are the names of the earlier nodes."""
    try:
        tree = _parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        inputs = tuple(dict.fromkeys(name for name in re.findall(r"[A-Za-z_]\w*", code) if name in nodes))
        target = code.partition("(")[0].strip()
        return Expression("call_function", _public(target), code[len(target) + 1 :].removesuffix(")"), inputs)
    return Expression(*_read(tree, nodes), tuple(dict.fromkeys(_in_order(tree, nodes))))


@lru_cache(maxsize=4096)
def _parse(code: str) -> ast.expr:
    return ast.parse(code, mode="eval").body


def _in_order(tree: ast.AST, nodes: Collection[str]) -> list[str]:
    """Return the names of nodes in the order of the text."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in nodes]
    return [name.id for name in sorted(names, key=lambda name: (name.lineno, name.col_offset))]


def _read(tree: ast.expr, nodes: Collection[str]) -> tuple[str, str, str]:
    if isinstance(tree, ast.Call):
        return _call(tree, nodes)
    if isinstance(tree, ast.Subscript):
        return "call_function", "getitem", _join(tree.value, tree.slice)
    if isinstance(tree, ast.BinOp):
        return "call_function", _OPERATORS[type(tree.op)], _join(tree.left, tree.right)
    if isinstance(tree, ast.Compare):
        return "call_function", _OPERATORS.get(type(tree.ops[0]), "compare"), _join(tree.left, *tree.comparators)
    if isinstance(tree, ast.UnaryOp):
        return "call_function", _OPERATORS[type(tree.op)], _join(tree.operand)
    if isinstance(tree, ast.Attribute):
        root = _root(tree)
        if root in nodes:
            return "call_function", "getattr", f"{_text(tree.value)}, '{tree.attr}'"
        return "get_attr", ast.unparse(tree).removeprefix("self."), ""
    return "call_function", ast.unparse(tree), ""


def _call(tree: ast.Call, nodes: Collection[str]) -> tuple[str, str, str]:
    keywords = [f"{word.arg}={_text(word.value)}" for word in tree.keywords]
    args = [_text(arg) for arg in tree.args]
    function = tree.func
    root = _root(function)
    if isinstance(function, ast.Attribute) and root in nodes:
        return "call_method", function.attr, ", ".join([_text(function.value), *args, *keywords])
    name = ast.unparse(function)
    if root == "self":
        return "call_module", name.removeprefix("self."), ", ".join([*args, *keywords])
    return "call_function", _public(name), ", ".join([*args, *keywords])


def _root(tree: ast.expr) -> str:
    while isinstance(tree, ast.Attribute | ast.Call | ast.Subscript):
        tree = tree.func if isinstance(tree, ast.Call) else tree.value
    return tree.id if isinstance(tree, ast.Name) else ""


def _public(name: str) -> str:
    if match := _ALIASED.match(name) or _FUNCTIONAL.match(name):
        return f"torch.nn.functional.{match[1]}"
    for prefix, public in _PREFIXES:
        if name.startswith(prefix):
            return public + name.removeprefix(prefix)
    return name


def _join(*values: ast.expr) -> str:
    return ", ".join(map(_text, values))


def _text(value: ast.expr) -> str:
    """Return one argument in the form of `capture/fx/fx_text.py`."""
    formatter = _FORMATTERS.get(type(value))
    return formatter(value) if formatter else ast.unparse(value)


def _constant(value: ast.Constant) -> str:
    text = "..." if value.value is Ellipsis else repr(value.value)
    return text if len(text) <= MAX_VALUE_LENGTH else text[: MAX_VALUE_LENGTH - 1] + "…"


def _items(values: list[ast.expr]) -> str:
    items = [_text(value) for value in values[:MAX_ITEMS]]
    return ", ".join([*items, f"… {len(values)} in all"] if len(values) > MAX_ITEMS else items)


def _tuple(value: ast.Tuple) -> str:
    return f"({_items(value.elts)}{',' if len(value.elts) == 1 else ''})"


def _dict(value: ast.Dict) -> str:
    pairs = zip(value.keys, value.values, strict=True)
    return "{" + ", ".join(f"{_text(key)}: {_text(item)}" for key, item in pairs if key is not None) + "}"


def _builtin_call(value: ast.Call) -> str:
    """Return a slice as `1:2`, a device as `cuda:0`, any other call as it is."""
    name = ast.unparse(value.func)
    if name == "slice" and 2 <= len(value.args) <= 3:
        start, stop, *step = ("" if _is_none(arg) else _text(arg) for arg in value.args)
        return f"{start}:{stop}" + (f":{step[0]}" if step and step[0] else "")
    if name in ("device", "torch.device"):
        words = {word.arg: word.value for word in value.keywords}
        kind = words.get("type") or (value.args[0] if value.args else None)
        index = words.get("index")
        if isinstance(kind, ast.Constant) and isinstance(kind.value, str):
            return kind.value + (f":{_text(index)}" if index is not None else "")
    return ast.unparse(value)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


_FORMATTERS: dict[type[ast.AST], Callable[..., str]] = {
    ast.Constant: _constant,
    ast.Name: lambda value: "..." if value.id == "Ellipsis" else value.id,
    ast.Attribute: lambda value: ast.unparse(value).removeprefix("torch.ops."),
    ast.Tuple: _tuple,
    ast.List: lambda value: f"[{_items(value.elts)}]",
    ast.Dict: _dict,
    ast.Call: _builtin_call,
}
