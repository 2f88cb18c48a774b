"""Text of a guard's check: its code and a short description."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tcexplore.capture.fx.tensor_descriptions import TensorFacts
from tcexplore.capture.guards.guard_tree import LeafGuard
from tcexplore.torch_text.dynamo_names import readable_source
from tcexplore.torch_text.guard_checks import SHAPE_REASONS, Check

_CONTAINS = re.compile(r"^(not )?___dict_contains\((.+?), ")


def summarize(leaf: LeafGuard, check: Check, tensor: TensorFacts | None = None) -> str:
    """Return a short description of the condition: `f32[64, 512] cpu, contiguous`, `== 3`, `is the same function`."""
    if tensor is not None:
        return tensor_text(tensor)
    return _SUMMARIES.get(leaf.kind, _expression)(leaf, check)


def tensor_text(tensor: TensorFacts) -> str:
    """Return dtype, sizes (a symbol where the dimension is dynamic), device and layout."""
    layout = "contiguous" if tensor.contiguous else f"strides [{', '.join(tensor.stride or ())}]"
    return f"{tensor.dtype}[{', '.join(tensor.shape)}] {tensor.device}, {layout}"


def _expression(leaf: LeafGuard, check: Check) -> str:
    """Return the expression, without the source at its start."""
    if leaf.source and check.code.startswith(leaf.source):
        return check.code[len(leaf.source) :].strip()
    return readable_source(check.code)


def _length(leaf: LeafGuard, check: Check) -> str:
    if check.code.strip() == f"not {leaf.source}":
        return "is empty"
    return f"length {check.code.removeprefix(f'len({leaf.source})').strip()}"


def _type(leaf: LeafGuard, _: Check) -> str:
    return f"type is {leaf.guarded.__name__}"


def _identity(leaf: LeafGuard, _: Check) -> str:
    return f"is the same {_NOUNS.get(leaf.guarded.__name__, leaf.guarded.__name__)}"


_NOUNS = {"code": "function", "builtin_function_or_method": "built-in function", "type": "class"}


def _dynamic_marks(_: LeafGuard, __: Check) -> str:
    return "the same dimensions are marked as dynamic"


def _contains(_: LeafGuard, check: Check) -> str:
    match = _CONTAINS.match(check.code)
    return f"has {'no' if match.group(1) else 'an'} instance attribute {match.group(2)}" if match else check.code


def _shape(_: LeafGuard, check: Check) -> str:
    reason = next((reason for text, reason in SHAPE_REASONS.items() if text in check.comment), "")
    return readable_source(check.code) + (f" ({reason})" if reason else "")


def _global_state(_: LeafGuard, check: Check) -> str:
    """Return the global settings that programs often change. torch compares all of them with a JSON text."""
    try:
        state: dict[str, Any] = json.loads(check.code.split(" against ", 1)[1])
    except (IndexError, ValueError):
        return "torch's global settings are the same"
    settings = {
        "grad mode": state.get("grad_mode"),
        "autocast": any(state.get("autocast_state", {}).get("enabled", ())),
        "deterministic algorithms": state.get("deterministic_algorithms"),
    }
    texts = [f"{name} {'on' if value else 'off'}" for name, value in settings.items() if value is not None]
    return ", ".join([*texts, f"{state['num_threads']} threads"] if "num_threads" in state else texts)


def _aliasing(_: LeafGuard, check: Check) -> str:
    return readable_source(check.code.replace("check_no_aliasing", "all different tensors: "))


_SUMMARIES: dict[str, Callable[[LeafGuard, Check], str]] = {
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
