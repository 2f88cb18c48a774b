"""The values that a failed guard compared: what its code was made for, and what it found."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from tcexplore.capture.fx.fx_text import readable_source
from tcexplore.capture.fx.tensor_descriptions import tensor_facts
from tcexplore.capture.guards.guard_text import tensor_text

LONGEST = 80
ONE_OBJECT = "one object"

_IDENTITY = re.compile(r"^___check_(type|obj)_id\((.+), \d+\)(?:, type=<class '(?:.*\.)?(.+?)'>)?")


class Compared(NamedTuple):
    """`what` was compared, readable; `old` is what the compiled code needs, `new` what the call brought."""

    what: str
    old: str
    new: str


def compared(code: str, scope: Mapping[str, Any]) -> Compared:
    """Both sides of a guard's code, the new one evaluated as torch does it; sides that cannot be told are empty."""
    identity = _IDENTITY.match(code)
    if identity:
        return _identity(identity, scope)
    try:
        tree = ast.parse(code, mode="eval").body
    except SyntaxError:
        return Compared(readable_source(code), "", "")
    if isinstance(tree, ast.Compare):
        return _comparison(tree, code, scope)
    return Compared(readable_source(code), "", "")


def value_text(value: object) -> str:
    """A value in a few words: a plain one as Python writes it, a tensor by its facts, any other by its type."""
    facts = tensor_facts(value)
    if facts:
        return tensor_text(facts)
    if isinstance(value, bool | int | float | complex | str | bytes | tuple | type(None)):
        text = repr(value)
        return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return str(getattr(value, "__qualname__", f"<{type(value).__name__}>"))


def _identity(match: re.Match[str], scope: Mapping[str, Any]) -> Compared:
    check, source, of_type = match.groups()
    found, value = _evaluate(source, scope)
    what = readable_source(source)
    if check == "type":
        return Compared(what, of_type or "", type(value).__name__ if found else "")
    code = source.endswith(".__code__")
    name = getattr(value, "co_qualname", "") or getattr(value, "co_name", "") if code else value_text(value)
    return Compared(what.removesuffix(".__code__"), f"another {'function' if code else of_type or 'object'}", name)


def _comparison(tree: ast.Compare, code: str, scope: Mapping[str, Any]) -> Compared:
    sides = [tree.left, *tree.comparators]
    varying = [side for side in sides if not _is_constant(side)]
    texts = [value_text(value) if found else "" for found, value in (_evaluate(ast.unparse(s), scope) for s in varying)]
    what = readable_source(" and ".join(map(ast.unparse, varying)))
    if isinstance(tree.ops[0], ast.Is) and len(varying) == 2:
        return Compared(what, ONE_OBJECT, "two objects")
    equality = len(sides) == 2 and isinstance(tree.ops[0], ast.Eq | ast.Is)
    if equality and len(varying) == 1:
        return Compared(what, next(ast.unparse(side) for side in sides if _is_constant(side)), texts[0])
    return Compared(what, readable_source(code), " and ".join(texts))


def _is_constant(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _evaluate(expression: str, scope: Mapping[str, Any]) -> tuple[bool, Any]:
    """torch itself evaluates these expressions when it looks for the guard that failed."""
    try:
        return True, eval(expression, dict(scope))
    except Exception:  # an attribute or an index that the new call does not have
        return False, None
