"""Meaning of a guard: its expression, torch's comment, its values, and a short description."""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable, Collection, Iterable
from typing import Literal, NamedTuple

from tcexplore.torch_text.dynamo_names import readable_source
from tcexplore.torch_text.failure_causes import ONE_OBJECT, ComparedValues

_COMMENT = re.compile(r"\s+# ")
_HINT = re.compile(r"\s*\(HINT: .*\)$")
_HINT_START = "(HINT: "
_PLACE = re.compile(r"(?:^|# )(\S+\.py):(\d+) in (\S+)")

SHAPE_REASONS = {
    "duck sizing": "they were equal when it was compiled",
    "0/1 specialization": "sizes 0 and 1 are specialized",
}
"""Reasons for conditions on sizes, by torch's words."""


class Check(NamedTuple):
    """One expression of a guard and torch's comment on it."""

    code: str
    comment: str

    @property
    def place(self) -> tuple[str, int, str] | None:
        """Return the end of the path, the line and the function in the comment."""
        place = _PLACE.search(self.comment)
        return (place.group(1), int(place.group(2)), place.group(3)) if place else None


def split_check(text: str, known_codes: Iterable[str] = ()) -> Check:
    """Split a check into code and comment. `known_codes` are the codes that torch also keeps without the comment."""
    for code in known_codes:  # runs hundreds of times per compile
        if text.startswith(code):
            break
    else:
        code = _COMMENT.split(text, maxsplit=1)[0]
    comment = text[len(code) :].strip().removeprefix("# ")
    if _HINT_START in text:
        code, comment = _HINT.sub("", code), _HINT.sub("", comment)
    return Check(code, comment)


RELATIONS = frozenset({"NO_TENSOR_ALIASING", "OBJECT_ALIASING", "SYMBOLIC_SHAPE_GUARD", "STORAGE_OVERLAPPING"})
"""Guards that torch's tree repeats for each object that they relate."""

_CONTAINS = re.compile(r"^(not )?___dict_contains\((.+?), ")


class GuardedValue(NamedTuple):
    """The value that a guard checks."""

    source: str
    """torch's expression for it: `L['x']`."""
    type_name: str
    """Name of its class, without the module."""


def summarize(kind: str, value: GuardedValue, check: Check) -> str:
    """Return a short description of the condition: `== 3`, `length 2`, `is the same function`."""
    return _SUMMARIES.get(kind, _expression)(value, check)


def tensor_text(dtype: str, shape: Iterable[str], device: str, stride: Iterable[str] | None) -> str:
    """Return dtype, sizes (a symbol where the dimension is dynamic), device and layout; no stride is contiguous."""
    layout = "contiguous" if stride is None else f"strides [{', '.join(stride)}]"
    return f"{dtype}[{', '.join(shape)}] {device}, {layout}"


def _expression(value: GuardedValue, check: Check) -> str:
    """Return the expression, without the source at its start."""
    if value.source and check.code.startswith(value.source):
        return check.code[len(value.source) :].strip()
    return readable_source(check.code)


def _length(value: GuardedValue, check: Check) -> str:
    if check.code.strip() == f"not {value.source}":
        return "is empty"
    return f"length {check.code.removeprefix(f'len({value.source})').strip()}"


def _type(value: GuardedValue, _: Check) -> str:
    return f"type is {value.type_name}"


def _identity(value: GuardedValue, _: Check) -> str:
    return f"is the same {_NOUNS.get(value.type_name, value.type_name)}"


_NOUNS = {"code": "function", "builtin_function_or_method": "built-in function", "type": "class"}


def _dynamic_marks(_: GuardedValue, __: Check) -> str:
    return "the same dimensions are marked as dynamic"


def _contains(_: GuardedValue, check: Check) -> str:
    match = _CONTAINS.match(check.code)
    return f"has {'no' if match.group(1) else 'an'} instance attribute {match.group(2)}" if match else check.code


def _shape(_: GuardedValue, check: Check) -> str:
    reason = next((reason for text, reason in SHAPE_REASONS.items() if text in check.comment), "")
    return readable_source(check.code) + (f" ({reason})" if reason else "")


def _global_state(_: GuardedValue, check: Check) -> str:
    """Return the global settings that programs often change. torch compares all of them with a JSON text."""
    try:
        state = json.loads(check.code.split(" against ", 1)[1])
        settings = {
            "grad mode": state.get("grad_mode"),
            "autocast": any(state.get("autocast_state", {}).get("enabled", ())),
            "deterministic algorithms": state.get("deterministic_algorithms"),
        }
    except (IndexError, ValueError, AttributeError):
        return "torch's global settings are the same"
    texts = [f"{name} {'on' if on else 'off'}" for name, on in settings.items() if on is not None]
    return ", ".join([*texts, f"{state['num_threads']} threads"] if "num_threads" in state else texts)


def _aliasing(_: GuardedValue, check: Check) -> str:
    return readable_source(check.code.replace("check_no_aliasing", "all different tensors: "))


_SUMMARIES: dict[str, Callable[[GuardedValue, Check], str]] = {
    "DICT_CONTAINS": _contains,
    "DICT_LENGTH": _length,
    "DIMENSION_DYNAMIC_MARKING_GUARD": _dynamic_marks,
    "GLOBAL_STATE": _global_state,
    "ID_MATCH": _identity,
    "LENGTH_CHECK": _length,
    "NO_TENSOR_ALIASING": _aliasing,
    "SHAPE_ENV": _shape,
    "SYMBOLIC_SHAPE_GUARD": _shape,
    "TYPE_MATCH": _type,
}


# ---- structural guards

_STRUCTURAL_KINDS = frozenset({
    "DEFAULT_DEVICE", "DICT_CONTAINS", "DICT_VERSION", "DIMENSION_DYNAMIC_MARKING_GUARD", "LAMBDA_GUARD",
    "NO_HASATTR", "NOT_NONE", "TORCH_FUNCTION_MODE_STACK",
})  # fmt: skip
_IDENTITY_KINDS = frozenset({"ID_MATCH", "TYPE_MATCH", "OBJECT_ALIASING"})
_IMPLIED_KINDS = frozenset({"TYPE_MATCH", "LENGTH_CHECK"})
"""Guards that are redundant if the value itself is compared."""
_INTERNAL_SOURCES = re.compile(
    r"__import_|__builtins_dict__|_hooks\b|\._(?:modules|parameters|buffers)(?:\)\)\[\d+\])?$"
    r"|\.__(?:dict|defaults|kwdefaults|mro|closure)__$|\.__defaults__\[\d+\]$"
)


def is_structural(
    kind: str, source: str, checks: Iterable[str], sibling_kinds: Collection[str], is_library: Callable[[], bool]
) -> bool:
    """Return whether a guard only checks modules, their structure or torch's internals.

    Users rarely change these, so they are folded behind a count. The global state (grad mode, autocast) and
    conditions on shapes are not structural. `is_library` tells whether the guarded object is torch's, Python's or a
    module.
    """
    if kind in _STRUCTURAL_KINDS or _INTERNAL_SOURCES.search(source) or any("__import_" in check for check in checks):
        return True
    if kind in _IMPLIED_KINDS and "EQUALS_MATCH" in sibling_kinds:
        return True
    return kind in _IDENTITY_KINDS and is_library()


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
