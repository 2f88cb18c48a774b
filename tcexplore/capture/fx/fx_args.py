"""Targets and arguments of FX nodes as short, readable text."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.fx.node import Node, _get_qualified_name

LONGEST_ITEM = 60
MOST_ITEMS = 16

_PUBLIC = ((torch.nn.functional, "torch.nn.functional"), (torch, "torch"))


def target_text(node: Node) -> str:
    """torch's name for what `node` calls: a public name where there is one, the bare name of an operator or method."""
    target: Any = node.target
    if isinstance(target, str | torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return str(target)
    name: str = getattr(target, "__name__", "")
    if getattr(operator, name, None) is target:
        return name
    for module, public in _PUBLIC:
        if getattr(module, name, None) is target:
            return f"{public}.{name}"
    try:
        return str(_get_qualified_name(target)).replace("torch.ops.", "")
    except Exception:  # objects without a module, such as a callable instance
        return str(name or f"<{type(target).__name__}>")


def args_text(node: Node) -> str:
    """All arguments, kwargs last: `x, [y, z], dim=0`."""
    parts = [value_text(arg) for arg in node.args]
    parts += [f"{key}={value_text(value)}" for key, value in node.kwargs.items()]
    return ", ".join(parts)


def value_text(value: Any) -> str:
    """One argument: a node by its name, a constant as Python writes it, an object by its type."""
    if isinstance(value, Node):
        return str(value.name)
    shown = next((show for kinds, show in _SHOWN if isinstance(value, kinds)), None)
    return shown(value) if shown else f"<{type(value).__name__}>"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_ITEM else text[: LONGEST_ITEM - 1] + "…"


def _items(values: Iterable[Any], total: int) -> str:
    shown = [value_text(value) for _, value in zip(range(MOST_ITEMS), values, strict=False)]
    return ", ".join([*shown, f"… {total} in all"] if total > MOST_ITEMS else shown)


def _tuple(value: tuple[Any, ...]) -> str:
    return f"({_items(value, len(value))}{',' if len(value) == 1 else ''})"


def _list(value: list[Any]) -> str:
    return f"[{_items(value, len(value))}]"


def _dict(value: dict[Any, Any]) -> str:
    return "{" + ", ".join(f"{value_text(key)}: {value_text(item)}" for key, item in value.items()) + "}"


def _slice(value: slice) -> str:
    start, stop = ("" if end is None else value_text(end) for end in (value.start, value.stop))
    return f"{start}:{stop}" + ("" if value.step is None else f":{value_text(value.step)}")


_TORCH_CONSTANTS = (torch.dtype, torch.memory_format, torch.layout, torch.device, enum.Enum)
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)

_SHOWN: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    ((bool, int, float, complex, str, bytes, type(None)), _short),
    (type(Ellipsis), lambda _: "..."),
    (tuple, _tuple),
    (list, _list),
    (dict, _dict),
    (slice, _slice),
    (_TORCH_CONSTANTS, str),
    (_SYMBOLS, str),
)
