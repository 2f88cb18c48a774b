"""Meaning of a guard: its expression, torch's comment, its values, a short description, and why it failed."""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable, Collection, Iterable
from typing import Literal, NamedTuple

from tcexplore.events import RecompileKind
from tcexplore.torch_text.dynamo_names import readable_source

_COMMENT = re.compile(r"\s+# ")
_VALUE = re.compile(r"(?<=\)), type=(?!<).*$", re.DOTALL)
"""The whole value of an object, which torch 2.11 writes in place of its class: all numbers of a tensor."""
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
    if code.startswith("___check_obj_id("):
        code = _VALUE.sub("", code)
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


def _global_settings(_: GuardedValue, check: Check) -> str:
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
    "GLOBAL_STATE": _global_settings,
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

_IDENTITY = re.compile(r"^___check_(type|obj)_id\((.+), \d+\)(?:, type=<\w+ '(?:.*\.)?(.+?)'>)?")


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


BACKEND_MATCH = "BACKEND_MATCH failure"
"""torch's reason for an entry that only the backend keeps from matching."""

OTHER_BACKEND = "It was compiled for another backend, mode or other options of torch.compile; each has its own entries."
ONE_OBJECT = "one object"


class ComparedValues(NamedTuple):
    """Both sides of a guard, each empty if it is unknown."""

    name: str
    """The name of the compared value, readable."""
    old: str
    """The value that the code was compiled for."""
    new: str
    """The value that the call passes."""


class Cause(NamedTuple):
    """Why a cache entry does not match a call."""

    name: str
    """The value that differs, readable."""
    old: str
    """What the code was compiled for, empty if unknown."""
    new: str
    """What the call passes, empty if unknown."""
    reason: str
    kind: RecompileKind = ""
    dim: int | None = None
    """The dimension of the tensor that differs, if any."""


def cause_of_values(values: ComparedValues, code: str) -> Cause:
    """Return the cause, without its kind, from the values that a guard's readable code compared."""
    name, old, new = values
    if old == ONE_OBJECT:
        both = name.replace(" and ", "` and `")
        return Cause(name, old, new, f"`{both}` are {new}; it was compiled for {old}.")
    if new and old and old != code:
        return Cause(name, old, new, f"`{name}` is {new}; it was compiled for {old}.")
    if new and old:
        return Cause(name, old, new, f"It was compiled for `{old}`, which is false for {new}.")
    return Cause(name, old, new, f"`{code}` no longer holds.")


_SHAPE = re.compile(r"\.(?:size|stride)\(\)\[|\.storage_offset\(\)")
_ID_CHECK = re.compile(r"^___check_(type|obj)_id\(")
_LENGTH = re.compile(r"^(?:not\s+)?len\(|^not [LG]\[")
_NUMBERS: dict[type, RecompileKind] = {bool: "bool", int: "int", float: "float"}


def kind_of_check(code: str, values: ComparedValues) -> RecompileKind:
    """Return the kind of a guard whose code compared values."""
    id_check = _ID_CHECK.match(code)
    if id_check:
        return "type" if id_check[1] == "type" else "identity"
    if values.old == ONE_OBJECT:
        return "aliasing"
    if _SHAPE.search(code) or _is_range_check(code):
        return "condition"
    return "length" if _LENGTH.match(code) else _kind_of_value(values.new or values.old)


def _is_range_check(code: str) -> bool:
    """Return whether a guard compares by order, as torch writes the ranges of symbols."""
    try:
        tree = ast.parse(code, mode="eval").body
    except SyntaxError:
        return False
    return isinstance(tree, ast.Compare) and isinstance(tree.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)


def _kind_of_value(text: str) -> RecompileKind:
    try:
        return _NUMBERS.get(type(ast.literal_eval(text)), "value")
    except (ValueError, SyntaxError):
        return "value"


# ---- causes from torch's text

_TENSOR_MISMATCHES: tuple[tuple[RecompileKind, str, str], ...] = (
    (
        "size",
        r"size mismatch at index (?P<dim>\d+)",
        "Dimension {dim} of `{name}` is {new}; it was compiled for {old}.",
    ),
    (
        "stride",
        r"stride mismatch at index (?P<dim>\d+)",
        "The stride of `{name}` in dimension {dim} is {new}, not {old}.",
    ),
    ("rank", r"rank mismatch", "`{name}` has {new} dimensions; it was compiled for {old}."),
    ("dtype", r"dtype mismatch", "The dtype of `{name}` is {new}; it was compiled for {old}."),
    ("dispatch", r"dispatch key set mismatch", "`{name}` is another kind of tensor: {new} instead of {old}."),
)
_ADVICE = r"(?:\. Guard failed on a parameter, .*)?"
"""What torch adds about a parameter; a failed guard is shown with it."""
_MISMATCHES = tuple(
    (
        kind,
        re.compile(rf"^tensor '(?P<name>.+)' {text}\. expected (?P<old>.+), actual (?P<new>.+?){_ADVICE}$"),
        template,
    )
    for kind, text, template in _TENSOR_MISMATCHES
)
_ANY_MISMATCH = re.compile(r"^tensor '(?P<name>.+?)' .*?[Ee]xpected (?P<old>.+?), actual (?P<new>.+)$")
_REQUIRES_GRAD = re.compile(r"^tensor '(?P<name>.+)' requires_grad mismatch\. expected requires_grad=(?P<flag>\d)")
_NO_TENSOR = re.compile(r"^expected type of '(?P<name>.+)' to be a tensor type, ' but found <class '(?P<new>.+)'>")
_GLOBAL_STATE = re.compile(r"^GLOBAL_STATE changed: (.+)$")
_KEY_SET = re.compile(r"^DispatchKeySet\((.+)\)$")
_FREED = re.compile(r"^Cache line invalidated because (?P<name>.+) got deallocated$")
_DUPLICATE = re.compile(r"^Duplicate tensors? found")

_SETTINGS = {
    "grad_mode": (
        "It was compiled with gradients {old} and is now called with gradients {new} (see `torch.no_grad()`): "
        "each needs its own code."
    ),
    "autocast": "Autocast has changed since this was compiled.",
    "num_threads": "The number of threads (`torch.set_num_threads`) has changed since this was compiled.",
    "default_dtype": "The default dtype has changed since this was compiled.",
    "deterministic_algorithms": "Deterministic algorithms were switched on or off.",
}


def cause_of_text(text: str, *, grad_enabled: bool) -> Cause | None:
    """Return the cause from a torch message, None if the text is code.

    `grad_enabled` tells whether the call records gradients.
    """
    for kind, pattern, template in _MISMATCHES:
        match = pattern.match(text)
        if match:
            old, new = _shorten(match["old"], match["new"])
            dim = match.groupdict().get("dim")
            name = readable_source(match["name"])
            reason = template.format(name=name, dim=dim, old=old, new=new)
            return Cause(name, old, new, reason, kind, None if dim is None else int(dim))
    parsers = (_requires_grad, _not_a_tensor, _duplicate, _freed, _any_mismatch)
    return _global_state(text, grad_enabled) or next(filter(None, (parse(text) for parse in parsers)), None)


def _requires_grad(text: str) -> Cause | None:
    match = _REQUIRES_GRAD.match(text)
    if not match:
        return None
    name = readable_source(match["name"])
    old, new = (f"requires_grad={flag}" for flag in (match["flag"] == "1", match["flag"] == "0"))
    return Cause(name, old, new, f"`{name}` has {new}; it was compiled for {old}.", "requires_grad")


def _not_a_tensor(text: str) -> Cause | None:
    match = _NO_TENSOR.match(text)
    if not match:
        return None
    name, new = match["name"], match["new"].rpartition(".")[2]
    return Cause(name, "a tensor", new, f"`{name}` is of type {new}; it was compiled for a tensor.", "type")


def _duplicate(text: str) -> Cause | None:
    if not _DUPLICATE.match(text):
        return None
    reason = "The same tensor was passed twice; it was compiled for different ones."
    return Cause("", "different tensors", "the same tensor", reason, "aliasing")


def _freed(text: str) -> Cause | None:
    match = _FREED.match(text)
    if not match:
        return None
    name = readable_source(match["name"])
    return Cause(name, "", "", f"`{name}` no longer exists; it was compiled for that object.", "identity")


def _any_mismatch(text: str) -> Cause | None:
    match = _ANY_MISMATCH.match(text)
    if not match:
        return None
    return Cause(match["name"], match["old"], match["new"], f"{text[0].upper()}{text[1:]}.", "tensor")


def _global_state(text: str, grad_enabled: bool) -> Cause | None:
    match = _GLOBAL_STATE.match(text)
    if not match:
        return None
    names = match[1].split()
    old, new = ("off", "on") if grad_enabled else ("on", "off")
    reasons = [
        template.format(old=old, new=new)
        for setting, template in _SETTINGS.items()
        if any(name.startswith(setting) for name in names)
    ]
    reason = " ".join(reasons) or f"torch's global settings have changed: {', '.join(names)}."
    if names == ["grad_mode"]:
        return Cause("grad_mode", old, new, reason, "grad mode")
    return Cause(", ".join(names), "", "", reason, "global state")


_OF_NORMAL_TENSORS = ("ADInplaceOrView", "Autograd")
"""Beginnings of dispatch keys that inference tensors lack: the first in inference mode, the second outside of it."""


def _shorten(old: str, new: str) -> tuple[str, str]:
    """Return short names of two dtypes, or the dispatch keys that only one of two sets has."""
    old_keys, new_keys = _KEY_SET.match(old), _KEY_SET.match(new)
    if old_keys and new_keys:
        before, after = old_keys[1].split(", "), new_keys[1].split(", ")
        lost, gained = [k for k in before if k not in after], [k for k in after if k not in before]
        if not (lost and gained) and all(key.startswith(_OF_NORMAL_TENSORS) for key in (*lost, *gained)):
            kinds = "a normal tensor", "an inference tensor"
            return kinds if lost else kinds[::-1]
        return ", ".join(lost), ", ".join(gained)
    return _short_dtype(old), _short_dtype(new)


_DTYPES = {
    "Bool": "b8", "Byte": "u8", "Char": "i8", "Short": "i16", "Int": "i32", "Long": "i64", "Half": "f16",
    "BFloat16": "bf16", "Float": "f32", "Double": "f64", "ComplexHalf": "c32", "ComplexFloat": "c64",
    "ComplexDouble": "c128",
}  # fmt: skip
"""torch's abbreviations by the names of C++."""


def _short_dtype(name: str) -> str:
    """Return `f32` for C++'s `Float`."""
    return _DTYPES.get(name, name)
