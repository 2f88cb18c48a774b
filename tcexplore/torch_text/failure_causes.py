"""Causes of failed guards, from torch's messages and from the values that a guard compared."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from tcexplore.events import RecompileKind
from tcexplore.torch_text.dynamo_names import readable_source

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
_MISMATCHES = tuple(
    (kind, re.compile(rf"^tensor '(?P<name>.+)' {text}\. expected (?P<old>.+), actual (?P<new>.+)$"), template)
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
            reason = template.format(name=match["name"], dim=dim, old=old, new=new)
            return Cause(match["name"], old, new, reason, kind, None if dim is None else int(dim))
    parsers = (_requires_grad, _not_a_tensor, _duplicate, _freed, _any_mismatch)
    return _global_state(text, grad_enabled) or next(filter(None, (parse(text) for parse in parsers)), None)


def _requires_grad(text: str) -> Cause | None:
    match = _REQUIRES_GRAD.match(text)
    if not match:
        return None
    name = match["name"]
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


def _shorten(old: str, new: str) -> tuple[str, str]:
    """Return short names of two dtypes, or the dispatch keys that only one of two sets has."""
    old_keys, new_keys = _KEY_SET.match(old), _KEY_SET.match(new)
    if old_keys and new_keys:
        before, after = old_keys[1].split(", "), new_keys[1].split(", ")
        return ", ".join(k for k in before if k not in after), ", ".join(k for k in after if k not in before)
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
