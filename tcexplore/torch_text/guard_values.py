"""Values that a failed guard compared, from its code: the compiled one, and the passed one if it can be evaluated."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Literal

from tcexplore.torch_text.dynamo_names import readable_source
from tcexplore.torch_text.failure_causes import ONE_OBJECT, ComparedValues

Aspect = Literal["value", "type", "code"]
"""What a guard checks of a value: `code` is that of a function."""

Evaluate = Callable[[str, Aspect], str]
"""Returns the text of a passed value from its source, empty if it is unknown."""

_IDENTITY = re.compile(r"^___check_(type|obj)_id\((.+), \d+\)(?:, type=<class '(?:.*\.)?(.+?)'>)?")


ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip
"""Operators in torch's integer expressions of sizes."""


def compare_code(code: str, evaluate: Evaluate = lambda *_: "") -> ComparedValues:
    """Return the name of the value, the value that the code was compiled for, and the passed one."""
    identity = _IDENTITY.match(code)
    if identity:
        check, source, of_type = identity.groups()
        if check == "type":
            return ComparedValues(readable_source(source), of_type or "", evaluate(source, "type"))
        is_code = source.endswith(".__code__")
        old = f"another {'function' if is_code else of_type or 'object'}"
        name = readable_source(source).removesuffix(".__code__")
        return ComparedValues(name, old, evaluate(source, "code" if is_code else "value"))
    try:
        tree = ast.parse(code.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return ComparedValues(readable_source(code), "", "")
    if not isinstance(tree, ast.Compare):
        return ComparedValues(readable_source(code), "", "")
    sides = [tree.left, *tree.comparators]
    varying = [ast.unparse(side) for side in sides if not is_constant(side)]
    name = readable_source(" and ".join(varying))
    if isinstance(tree.ops[0], ast.Is) and len(varying) == 2:
        return ComparedValues(name, ONE_OBJECT, "two objects")
    new = " and ".join(filter(None, (evaluate(source, "value") for source in varying)))
    equality = len(sides) == 2 and isinstance(tree.ops[0], ast.Eq | ast.Is)
    if equality and len(varying) == 1:
        return ComparedValues(name, next(ast.unparse(side) for side in sides if is_constant(side)), new)
    return ComparedValues(name, readable_source(code), new)


def required_value(code: str) -> ComparedValues | None:
    """Return the name and the value if the code holds for one value only, None if for several."""
    values = compare_code(code)
    if values.old == "another NoneType":
        return values._replace(old="None")
    if not values.old or values.old in (readable_source(code), ONE_OBJECT) or values.old.startswith("another "):
        return None
    return values


def is_constant(node: ast.expr) -> bool:
    """Return whether an expression is a literal."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError):
        return False
    return True
