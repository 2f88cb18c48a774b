"""What kind of thing made a frame be compiled again, and where in the program its value comes from."""

from __future__ import annotations

import ast
import re
from types import CodeType

from tcexplore.capture.guards.guard_values import ONE_OBJECT, Compared

_SHAPE = re.compile(r"\.(?:size|stride)\(\)\[|\.storage_offset\(\)")
_CHECKED = re.compile(r"^___check_(type|obj)_id\(")
_LENGTH = re.compile(r"^(?:not\s+)?len\(|^not [LG]\[")
_LOCAL = re.compile(r"\bL\['([^']+)'\](?P<further>[.\[])?")
_PLAIN = {bool: "bool", int: "int", float: "float"}


def kind_of_values(code: str, values: Compared) -> str:
    """The kind of a failed guard whose code compared values, one of `events.RECOMPILE_KINDS`."""
    checked = _CHECKED.match(code)
    if checked:
        return "type" if checked[1] == "type" else "identity"
    if values.old == ONE_OBJECT:
        return "aliasing"
    if _SHAPE.search(code) or _orders(code):
        return "condition"
    return "length" if _LENGTH.match(code) else _kind_of_value(values.new)


def origin_of(code: str, what: str, frame: CodeType) -> str:
    """Where the value comes from that a guard of `frame` looked at: `argument`, `attribute`, `global`, `closure`."""
    if "G['" in code:
        return "global"
    found = _LOCAL.search(code)
    name = found[1] if found else re.split(r"[.\[]", what.removeprefix("len("), maxsplit=1)[0]
    if name in frame.co_freevars:
        return "closure"
    arguments = frame.co_varnames[: frame.co_argcount + frame.co_kwonlyargcount + 2]
    if name not in arguments:
        return ""
    return "attribute" if re.search(rf"\b{re.escape(name)}\.", what) else "argument"


def _orders(code: str) -> bool:
    """Whether a guard compares by order: so torch writes the ranges of symbols."""
    try:
        tree = ast.parse(code, mode="eval").body
    except SyntaxError:
        return False
    return isinstance(tree, ast.Compare) and isinstance(tree.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)


def _kind_of_value(text: str) -> str:
    try:
        return _PLAIN.get(type(ast.literal_eval(text)), "value")
    except (ValueError, SyntaxError):
        return "value"
