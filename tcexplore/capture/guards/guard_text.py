"""What a guard checks, as code and in readable words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tcexplore.capture.fx.fx_text import readable_source
from tcexplore.capture.fx.tensor_descriptions import TensorFacts
from tcexplore.capture.guards.guard_tree import LeafGuard

_COMMENT = re.compile(r"\s+# ")
_PLACE = re.compile(r"(?:^|# )(\S+\.py):(\d+) in (\S+)")
_CONTAINS = re.compile(r"^(not )?___dict_contains\((.+?), ")
_BECAUSE = {
    "duck sizing": "they were equal when it was compiled",
    "0/1 specialization": "sizes 0 and 1 get code of their own",
}


class Check(NamedTuple):
    """One expression of a guard and torch's comment on it."""

    code: str
    comment: str

    @property
    def place(self) -> tuple[str, int, str] | None:
        """End of the file's path, line and function that the comment names, where it does."""
        found = _PLACE.search(self.comment)
        return (found.group(1), int(found.group(2)), found.group(3)) if found else None


def split_check(text: str, known: Iterable[str] = ()) -> Check:
    """Part the code of a check from its comment; `known` are the codes that torch keeps for this guard apart."""
    code = next((code for code in known if text.startswith(code)), None)
    if code is None:
        code = _COMMENT.split(text, maxsplit=1)[0]
    return Check(code, text[len(code) :].strip().removeprefix("# "))


def summary(leaf: LeafGuard, check: Check, tensor: TensorFacts | None = None) -> str:
    """What has to hold, in a few words: `f32[64, 512] cpu, contiguous`, `== 3`, `is the same function`."""
    if tensor is not None:
        return tensor_text(tensor)
    return _SUMMARIES.get(leaf.kind, _expression)(leaf, check)


def tensor_text(tensor: TensorFacts) -> str:
    """Dtype, sizes (a symbol where the dimension is dynamic), device and layout."""
    layout = "contiguous" if tensor.contiguous else f"strides [{', '.join(tensor.stride or ())}]"
    return f"{tensor.dtype}[{', '.join(tensor.shape)}] {tensor.device}, {layout}"


def _expression(leaf: LeafGuard, check: Check) -> str:
    """The expression, without the source where it starts with that."""
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


def _marks(_: LeafGuard, __: Check) -> str:
    return "dimensions are marked as dynamic (or not) as before"


def _contains(_: LeafGuard, check: Check) -> str:
    found = _CONTAINS.match(check.code)
    return f"has {'no' if found.group(1) else 'an'} attribute {found.group(2)} of its own" if found else check.code


def _shape(_: LeafGuard, check: Check) -> str:
    because = next((said for text, said in _BECAUSE.items() if text in check.comment), "")
    return readable_source(check.code) + (f" ({because})" if because else "")


def _global_state(_: LeafGuard, check: Check) -> str:
    """Torch compares its global settings against this JSON; named here are those that a program often changes."""
    try:
        state: dict[str, Any] = json.loads(check.code.split(" against ", 1)[1])
    except (IndexError, ValueError):
        return "torch's global settings are the same"
    autocast = any(state.get("autocast_state", {}).get("enabled", ()))
    settings = {
        "grad mode": state.get("grad_mode"),
        "autocast": autocast,
        "deterministic algorithms": state.get("deterministic_algorithms"),
    }
    said = [f"{name} {'on' if value else 'off'}" for name, value in settings.items() if value is not None]
    return ", ".join([*said, f"{state['num_threads']} threads"] if "num_threads" in state else said)


def _aliasing(_: LeafGuard, check: Check) -> str:
    return readable_source(check.code.replace("check_no_aliasing", "all different tensors: "))


_SUMMARIES: dict[str, Callable[[LeafGuard, Check], str]] = {
    "DICT_CONTAINS": _contains,
    "DICT_LENGTH": _length,
    "DIMENSION_DYNAMIC_MARKING_GUARD": _marks,
    "GLOBAL_STATE": _global_state,
    "ID_MATCH": _identity,
    "LENGTH_CHECK": _length,
    "NO_TENSOR_ALIASING": _aliasing,
    "SHAPE_ENV": _shape,
    "SYMBOLIC_SHAPE_GUARD": _shape,
    "TYPE_MATCH": _type,
}
