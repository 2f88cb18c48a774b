"""Values of further arguments of `torch.compile`, from text: literals, and specifications of dynamic shapes."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Collection
from typing import Any

from tcexplore.capture.entry.entry import EntryError

SHAPES = ("shapes_spec", "dynamic_shapes")
"""Names of the argument with the specification of dynamic shapes: in torch 2.13, and since torch 2.15."""

SPECS = "torch.fx.experimental.dynamic_spec"
"""Module with the classes of specifications."""

SHAPES_HINT = (
    "Write a dictionary of argument names, each with its dimensions: \"shapes_spec={'x': ['batch', None]}\". A name is "
    "dynamic, None is static; ShapeVar('batch', max=64), TensorSpec and the other classes of " + SPECS + " work too."
)

_OPERATORS = (ast.operator, ast.unaryop, ast.cmpop)
_ALLOWED = (
    ast.Expression, ast.Constant, ast.Dict, ast.List, ast.Tuple, ast.Name, ast.Load, ast.Call, ast.keyword, ast.BinOp,
    ast.UnaryOp, ast.Compare,
)  # fmt: skip
"""Syntax of a specification: no attributes and no subscripts, so that only the classes of `SPECS` can be called."""


def parse_argument(text: str, known: Collection[str]) -> tuple[str, Any]:
    """Return the argument and its value of `NAME=VALUE`; `known` are torch's arguments. Raise `EntryError`.

    A specification of shapes is passed under the name that this torch has for it.
    """
    name, _, value = text.partition("=")
    if name in SHAPES:
        name = next((other for other in SHAPES if other in known), name)
    if name not in known:
        hint = f"Use one of {', '.join(known)}."
        raise EntryError(f"This torch's compile has no argument {name!r}.", hint, "arguments")
    if name in SHAPES:
        return name, _shapes(text, value)
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        if name == "name":  # text without quotes
            return name, value
        message = f"{text}: the value is not a Python literal."
        raise EntryError(message, "Write text in quotes, such as \"backend='eager'\".", "arguments") from None


def _shapes(text: str, value: str) -> Any:
    """Return the specification of dynamic shapes. Raise `EntryError`."""
    try:
        tree = ast.parse(value, mode="eval")
        if any(not isinstance(node, (*_ALLOWED, *_OPERATORS)) for node in ast.walk(tree)):
            raise ValueError("only literals, calls and arithmetic are allowed")
        specs = importlib.import_module(SPECS)
        names = {name: getattr(specs, name) for name in specs.__all__ if hasattr(specs, name)}
        names |= {name: _shared(names[name]) for name in ("ShapeVar", "IntVar")}
        evaluated = eval(compile(tree, "<shapes>", "eval"), {"__builtins__": {}}, names)
        if isinstance(evaluated, dict):
            evaluated = _with_tensors(evaluated, names)
            names["ShapesSpec"](evaluated)  # raises for an invalid specification
        return evaluated
    except Exception as error:  # noqa: BLE001  an invalid specification raises anything
        raise EntryError(f"{text}: {error}", SHAPES_HINT, "arguments") from None


def _shared(kind: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes variables, one for all uses of a name."""
    variables: dict[str, Any] = {}

    def variable(name: str | None = None, **limits: Any) -> Any:
        if name is None:
            return kind(**limits)
        if name not in variables:
            variables[name] = kind(name, **limits)
        return variables[name]

    return variable


def _with_tensors(params: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with lists of dimensions as `TensorSpec` of `ShapeVar`, and other names as `IntVar`."""
    return {
        name: [_spec(names, each) for each in value]
        if name.startswith("*") and isinstance(value, list)
        else _spec(names, value)
        for name, value in params.items()
    }


def _spec(names: dict[str, Any], value: Any) -> Any:
    if isinstance(value, str):
        return names["IntVar"](value)
    if not isinstance(value, list | tuple):
        return value
    return names["TensorSpec"]([names["ShapeVar"](dim) if isinstance(dim, str) else dim for dim in value])
