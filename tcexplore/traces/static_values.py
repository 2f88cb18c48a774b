"""Both sides of a failed guard's code, as far as its text tells: nothing of a trace is evaluated."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

from tcexplore.torch_text.dynamo_names import readable_source
from tcexplore.torch_text.failure_causes import ONE_OBJECT, ComparedValues

_IDENTITY = re.compile(r"^___check_(type|obj)_id\((.+), \d+\)(?:, type=<class '(?:.*\.)?(.+?)'>)?")


ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip
"""Operators in torch's integer expressions of sizes."""


def compare_code(code: str) -> ComparedValues:
    """Return the name of the value, and the value that the code was compiled for. A trace has no value of the call."""
    identity = _IDENTITY.match(code)
    if identity:
        check, source, of_type = identity.groups()
        old = (of_type or "") if check == "type" else f"another {of_type or 'object'}"
        return ComparedValues(readable_source(source), old, "")
    try:
        tree = ast.parse(code.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return ComparedValues(readable_source(code), "", "")
    if not isinstance(tree, ast.Compare):
        return ComparedValues(readable_source(code), "", "")
    sides = [tree.left, *tree.comparators]
    varying = [side for side in sides if not is_constant(side)]
    name = readable_source(" and ".join(map(ast.unparse, varying)))
    if isinstance(tree.ops[0], ast.Is) and len(varying) == 2:
        return ComparedValues(name, ONE_OBJECT, "two objects")
    equality = len(sides) == 2 and isinstance(tree.ops[0], ast.Eq | ast.Is)
    if equality and len(varying) == 1:
        return ComparedValues(name, next(ast.unparse(side) for side in sides if is_constant(side)), "")
    return ComparedValues(name, readable_source(code), "")


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
