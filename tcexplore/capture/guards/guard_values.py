"""The values that a failed guard compared: the compiled and the passed one."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from tcexplore.capture.fx.tensor_descriptions import tensor_facts
from tcexplore.torch_text.dynamo_names import readable_source
from tcexplore.torch_text.failure_causes import ONE_OBJECT, ComparedValues

MAX_LENGTH = 80

_IDENTITY = re.compile(r"^___check_(type|obj)_id\((.+), \d+\)(?:, type=<class '(?:.*\.)?(.+?)'>)?")


def compare_values(code: str, scope: Mapping[str, Any]) -> ComparedValues:
    """Return both sides of a guard's code, the new one evaluated as torch does it."""
    identity = _IDENTITY.match(code)
    if identity:
        return _compare_identity(identity, scope)
    try:
        tree = ast.parse(code, mode="eval").body
    except SyntaxError:
        return ComparedValues(readable_source(code), "", "")
    if isinstance(tree, ast.Compare):
        return _compare_sides(tree, code, scope)
    return ComparedValues(readable_source(code), "", "")


def value_text(value: object) -> str:
    """Return a short text: a constant as a Python literal, a tensor by its facts, another object by its type."""
    facts = tensor_facts(value)
    if facts:
        return facts.text
    if isinstance(value, bool | int | float | complex | str | bytes | tuple | type(None)):
        text = repr(value)
        return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 1] + "…"
    return str(getattr(value, "__qualname__", f"<{type(value).__name__}>"))


def _compare_identity(match: re.Match[str], scope: Mapping[str, Any]) -> ComparedValues:
    check, source, of_type = match.groups()
    known, value = _evaluate(source, scope)
    name = readable_source(source)
    if check == "type":
        return ComparedValues(name, of_type or "", type(value).__name__ if known else "")
    is_code = source.endswith(".__code__")
    new = getattr(value, "co_qualname", "") or getattr(value, "co_name", "") if is_code else value_text(value)
    kind = "function" if is_code else of_type or "object"
    return ComparedValues(name.removesuffix(".__code__"), f"another {kind}", new)


def _compare_sides(tree: ast.Compare, code: str, scope: Mapping[str, Any]) -> ComparedValues:
    sides = [tree.left, *tree.comparators]
    varying = [side for side in sides if not _is_constant(side)]
    values = [_evaluate(ast.unparse(side), scope) for side in varying]
    texts = [value_text(value) if known else "" for known, value in values]
    name = readable_source(" and ".join(map(ast.unparse, varying)))
    if isinstance(tree.ops[0], ast.Is) and len(varying) == 2:
        return ComparedValues(name, ONE_OBJECT, "two objects")
    equality = len(sides) == 2 and isinstance(tree.ops[0], ast.Eq | ast.Is)
    if equality and len(varying) == 1:
        return ComparedValues(name, next(ast.unparse(side) for side in sides if _is_constant(side)), texts[0])
    return ComparedValues(name, readable_source(code), " and ".join(texts))


def _is_constant(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _evaluate(expression: str, scope: Mapping[str, Any]) -> tuple[bool, Any]:
    """Evaluate an expression as torch does to find the failed guard; return whether that worked, and the value."""
    try:
        return True, eval(expression, dict(scope))
    except Exception:  # noqa: BLE001  the call may lack an attribute or an index, and the user's own code may raise anything
        return False, None
