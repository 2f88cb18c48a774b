"""The first op whose value is not finite, and the values that it got.

Infinities are often right: masks have them, and the largest value of nothing is one. So only those count from which an
output of the graph depends that is not finite itself, and that an op makes of finite values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from tcexplore.events import OperandValue
from tcexplore.numerics.error_bounds import reduced_dims
from tcexplore.numerics.kernel_replay import needed
from tcexplore.numerics.replayed_values import op_name

_CONSTANTS = ("aten.full", "aten.scalar_tensor", "aten.where", "aten.full_like", "aten.constant_pad_nd")
"""Ops that put infinities in a mask or around an image."""


class Origin(NamedTuple):
    """The op that makes the first value which is not finite, or the input of the program that has it."""

    node: Any
    element: tuple[int, ...]


def spoiled_nodes(outputs: Iterable[Any], value_of: Callable[[Any], Any]) -> frozenset[Any]:
    """Return the nodes that outputs depend on which are not finite."""
    bad = [node for node in outputs if isinstance(node, torch.fx.Node) and not is_finite(value_of(node))]
    return frozenset(needed(bad, lambda _: False)) if bad else frozenset()


def first_origin(nodes: Iterable[Any], value_of: Callable[[Any], Any]) -> Origin | None:
    """Return the first of these nodes that has a NaN, and no input with one, or infinities of finite inputs."""
    for node in nodes:
        value = value_of(node)
        if not isinstance(value, Tensor) or not value.is_floating_point():
            continue
        if node.op == "placeholder":
            if bool(value.isnan().any()):
                return Origin(node, _first(value.isnan()))
            continue
        inputs = [value_of(each) for each in node.all_input_nodes]
        if bool(value.isnan().any()) and not any(map(_has_nan, inputs)):
            return Origin(node, _first(value.isnan()))
        if not is_finite(value) and op_name(node.target) not in _CONSTANTS and all(map(is_finite, inputs)):
            return Origin(node, _first(value.isinf()))
    return None


def is_finite(value: Any) -> bool:
    """Return whether all numbers of a value are finite; anything else is."""
    leaves = (leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor) and leaf.is_floating_point())
    return all(bool(torch.isfinite(leaf).all()) for leaf in leaves)


def _has_nan(value: Any) -> bool:
    return any(bool(leaf.isnan().any()) for leaf in tree_leaves(value) if isinstance(leaf, Tensor))


def _first(where: Tensor) -> tuple[int, ...]:
    return unraveled(int(where.flatten().to(torch.uint8).argmax()), where)


def unraveled(index: int, tensor: Tensor) -> tuple[int, ...]:
    """Return the index of an element of a tensor, given that in the flat tensor."""
    return tuple(int(i) for i in torch.unravel_index(torch.tensor(index), tensor.shape)) if tensor.dim() else ()


# ---- the inputs of an op at one element of its result


def operands_at(node: Any, values: Mapping[Any, Any], index: tuple[int, ...]) -> Iterator[OperandValue]:
    """Yield the input values that one element of an op's result is computed from; of many, their range."""
    for place, each in enumerate(node.all_input_nodes):
        value = values.get(each)
        if not isinstance(value, Tensor):
            continue
        yield OperandValue(each.name, _operand(node, place, value, index))


def _operand(node: Any, place: int, value: Tensor, index: tuple[int, ...]) -> str:
    name, shape = op_name(node.target), _shape(node)
    try:
        if name in ("aten.mm", "aten.bmm"):
            *batch, row, column = index
            return _range(value[(*batch, row)] if place == 0 else value[(*batch, slice(None), column)])
        dims = reduced_dims(value, node.args[1:2], node.kwargs) if name in _REDUCTIONS else ()
        if dims:
            kept = len(shape) == value.dim()
            rest = iter(index)
            where = [slice(None) if dim in dims and (not kept or next(rest) == 0) else next(rest)
                     for dim in range(value.dim())]  # fmt: skip
            return _range(value[tuple(where)])
        return value_text(value.expand(shape)[index])
    except (RuntimeError, TypeError, IndexError, ValueError, StopIteration):
        return _range(value)


_REDUCTIONS = ("aten.sum", "aten.mean", "aten.amax", "aten.amin", "aten.prod", "aten.var", "aten.logsumexp")


def _shape(node: Any) -> tuple[int, ...]:
    value = node.meta.get("val")
    return tuple(map(int, value.shape)) if isinstance(value, Tensor) else ()


def _range(values: Tensor) -> str:
    if not values.numel():
        return "no values"
    if not values.is_floating_point():
        return f"{values.numel()} values from {values.min().item()} to {values.max().item()}"
    finite = values[torch.isfinite(values)]
    ends = f" from {value_text(finite.min())} to {value_text(finite.max())}" if finite.numel() else ""
    others = values.numel() - finite.numel()
    return f"{values.numel()} values{ends}{f', {others} not finite' if others else ''}"


def value_text(value: Any) -> str:
    """Return a number as text, with digits enough for float32."""
    if isinstance(value, Tensor):
        value = value.item()
    return f"{value:.9g}" if isinstance(value, float) else str(value)
