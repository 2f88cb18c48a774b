"""FX nodes, FX graphs and Dynamo's source expressions as short, readable text."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.fx.node import Node, _get_qualified_name

from tcexplore.capture.fx.user_ops import launch_arguments

MAX_VALUE_LENGTH = 60
MAX_ITEMS = 16

_PUBLIC = ((torch.nn.functional, "torch.nn.functional"), (torch, "torch"))


class GraphText:
    """Formats a graph as lines of text repeatedly while passes change it. Lines of unchanged nodes are cached."""

    def __init__(self) -> None:
        self._lines: dict[Any, tuple[str, Any, Any, Any, str]] = {}
        """Each node's name, target, args, kwargs and line. A pass that changes a node replaces these objects."""

    def lines(self, graph: Any) -> list[str]:
        """Return one line per node: `name = target(args)`."""
        known = self._lines
        lines: list[str] = []
        for node in graph.nodes:  # runs twice per pass
            earlier = known.get(node)
            if earlier is not None:
                name, target, args, kwargs, line = earlier
                if args is node.args and kwargs is node.kwargs and target is node.target and name == node.name:
                    lines.append(line)
                    continue
            line = node_line(node)
            known[node] = node.name, node.target, node.args, node.kwargs, line
            lines.append(line)
        return lines


def node_line(node: Any) -> str:
    """Return a node as `name = target(args)`."""
    if node.op == "placeholder":
        return f"{node.name} = {node.op}"
    if node.op == "output":
        return f"{node.op}({args_text(node)})"
    if node.op == "get_attr":
        return f"{node.name} = {node.target}"
    return f"{node.name} = {target_text(node)}({args_text(node)})"


def target_text(node: Node) -> str:
    """Return torch's public name of a node's callee, or the plain name of an operator or method."""
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
        qualified = str(_get_qualified_name(target)).replace("torch.ops.", "")
    except Exception:  # noqa: BLE001  torch raises various errors for objects without a module, such as a callable instance
        return str(name or f"<{type(target).__name__}>")
    behind = qualified.removeprefix("torch._C._nn.")
    is_public = behind != qualified and hasattr(torch.nn.functional, behind)
    return f"torch.nn.functional.{behind}" if is_public else qualified


def args_text(node: Node) -> str:
    """Return all arguments, kwargs last: `x, [y, z], dim=0`; for a Triton kernel its grid and its arguments."""
    launch = launch_arguments(node)
    if launch is not None:
        return ", ".join(f"{key}={arg_text(value)}" for key, value in launch.items())
    parts = [arg_text(arg) for arg in node.args]
    parts += [f"{key}={arg_text(value)}" for key, value in node.kwargs.items()]
    return ", ".join(parts)


def arg_text(value: Any) -> str:
    """Return one argument: the name of a node, the Python literal of a constant, the type of an object."""
    if isinstance(value, Node):
        return str(value.name)
    formatter = next((formatter for kinds, formatter in _FORMATTERS if isinstance(value, kinds)), None)
    return formatter(value) if formatter else f"<{type(value).__name__}>"


def _constant(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_VALUE_LENGTH else text[: MAX_VALUE_LENGTH - 1] + "…"


def _items(values: Iterable[Any], total: int) -> str:
    items = [arg_text(value) for _, value in zip(range(MAX_ITEMS), values, strict=False)]
    return ", ".join([*items, f"… {total} in all"] if total > MAX_ITEMS else items)


def _tuple(value: tuple[Any, ...]) -> str:
    return f"({_items(value, len(value))}{',' if len(value) == 1 else ''})"


def _list(value: list[Any]) -> str:
    return f"[{_items(value, len(value))}]"


def _dict(value: dict[Any, Any]) -> str:
    return "{" + ", ".join(f"{arg_text(key)}: {arg_text(item)}" for key, item in value.items()) + "}"


def _slice(value: slice) -> str:
    start, stop = ("" if end is None else arg_text(end) for end in (value.start, value.stop))
    return f"{start}:{stop}" + ("" if value.step is None else f":{arg_text(value.step)}")


_TORCH_CONSTANTS = (torch.dtype, torch.memory_format, torch.layout, torch.device, enum.Enum)
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)

_FORMATTERS: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    ((bool, int, float, complex, str, bytes, type(None)), _constant),
    (type(Ellipsis), lambda _: "..."),
    (tuple, _tuple),
    (list, _list),
    (dict, _dict),
    (slice, _slice),
    (_TORCH_CONSTANTS, str),
    (_SYMBOLS, str),
    (torch._ops.OpOverload, str),
)
