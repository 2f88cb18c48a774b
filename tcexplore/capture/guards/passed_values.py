"""Values of the call that failed a guard."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from tcexplore.capture.fx.tensor_descriptions import tensor_facts
from tcexplore.torch_text.failure_causes import ComparedValues
from tcexplore.torch_text.guard_values import Aspect, compare_code

MAX_LENGTH = 80


def compare_values(code: str, scope: Mapping[str, Any]) -> ComparedValues:
    """Return both sides of a guard's code, the new one evaluated as torch does it."""
    return compare_code(code, partial(_evaluate, dict(scope)))


def value_text(value: object) -> str:
    """Return a short text: a constant as a Python literal, a tensor by its facts, another object by its type."""
    facts = tensor_facts(value)
    if facts:
        return facts.text
    if isinstance(value, bool | int | float | complex | str | bytes | tuple | type(None)):
        text = repr(value)
        return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 1] + "…"
    return str(getattr(value, "__qualname__", f"<{type(value).__name__}>"))


def _evaluate(scope: dict[str, Any], source: str, aspect: Aspect) -> str:
    """Evaluate a source as torch does to find the failed guard; return an empty text if that does not work."""
    try:
        value = eval(source, scope)
    except Exception:  # noqa: BLE001  the call may lack an attribute or an index, and the user's own code may raise anything
        return ""
    if aspect == "type":
        return type(value).__name__
    if aspect == "code":
        return getattr(value, "co_qualname", "") or getattr(value, "co_name", "")
    return value_text(value)
