"""Differences between two observations other than values, as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from tcexplore.accuracy.observation import Observation
from tcexplore.accuracy.tensor_comparison import CLOSE, IDENTICAL, ComparedValue, compare_value
from tcexplore.capture.fx.tensor_descriptions import dtype_text


class ObservationDiff(NamedTuple):
    """A difference."""

    text: str
    wrong: bool
    """Whether the caller gets a different result, not only a different layout."""


def diff_observations(
    first: Observation, second: Observation, sides: tuple[str, str] = ("eagerly", "compiled")
) -> Iterator[ObservationDiff]:
    """Yield every difference in presence, dtype, shape, device, stride, aliasing and plain values.

    `sides` are the names of the two observations in the sentences.
    """
    for kind in ("outputs", "gradients", "changed"):
        one, other = getattr(first, kind), getattr(second, kind)
        yield from _missing(kind, one, other, sides)
        for name in one.keys() & other.keys():
            yield from _diff_tensors(name, one[name], other[name], sides)
    for name, value in first.plain.items():
        if second.plain.get(name) != value:
            other = (
                repr(second.plain[name]) if name in second.plain else "a tensor" if name in second.outputs else "gone"
            )
            yield ObservationDiff(f"{name} is {value!r} {sides[0]}, {other} {sides[1]}", True)
    for path in sorted(first.state.keys() | second.state.keys()):
        one, other = (side.state.get(path, "unchanged") for side in (first, second))
        if one != other:
            yield ObservationDiff(f"{path} becomes {one!r:.80} {sides[0]}, {other!r:.80} {sides[1]}", True)
    for name in first.outputs.keys() & second.outputs.keys():
        yield from _diff_aliases(name, first.aliases.get(name), second.aliases.get(name), sides)


def fill_rewritten(first: Observation, second: Observation) -> None:
    """Count a tensor as changed by both sides if only one changed it, and by no more than rounding.

    A side that writes the values that a tensor already has, such as a cache after its last call, changes nothing.
    """
    for one, other in ((first, second), (second, first)):
        for name in one.changed.keys() - other.changed.keys():
            unchanged = other.unchanged.get(name)
            if unchanged is not None and comparable(one.changed[name], unchanged):
                compared = compare_value(ComparedValue(name, one.changed[name], unchanged))
                if compared.verdict in (IDENTICAL, CLOSE):
                    other.changed[name] = unchanged


def comparable(eager: torch.Tensor, compiled: torch.Tensor | None) -> bool:
    """Check whether the values of two tensors can be compared elementwise."""
    if compiled is None:
        return False
    same = all(getattr(eager, fact) == getattr(compiled, fact) for fact in ("shape", "dtype", "device", "layout"))
    return same and eager.layout == torch.strided


def _missing(
    kind: str, first: dict[str, torch.Tensor], second: dict[str, torch.Tensor], sides: tuple[str, str]
) -> Iterator[ObservationDiff]:
    verb = {"outputs": "is returned", "gradients": "exists", "changed": "is changed"}[kind]
    for name in first.keys() - second.keys():
        yield ObservationDiff(f"{name} {verb} {sides[0]}, not {sides[1]}", True)
    for name in second.keys() - first.keys():
        yield ObservationDiff(f"{name} {verb} {sides[1]}, not {sides[0]}", True)


def _diff_tensors(
    name: str, first: torch.Tensor, second: torch.Tensor, sides: tuple[str, str]
) -> Iterator[ObservationDiff]:
    facts = (
        ("shape", list(first.shape), list(second.shape), True),
        ("dtype", dtype_text(first.dtype), dtype_text(second.dtype), True),
        ("device", first.device, second.device, True),
        ("stride", _strides(first), _strides(second), False),
    )
    for fact, one, other, wrong in facts:
        if one != other and not (fact == "stride" and first.shape != second.shape):
            yield ObservationDiff(f"{name} has {fact} {one} {sides[0]}, {other} {sides[1]}", wrong)


def _strides(tensor: torch.Tensor) -> list[int] | None:
    """Return the strides of the dimensions with more than one element; other strides have no effect."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return None
    return [step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


def _diff_aliases(
    name: str, first: str | None, second: str | None, sides: tuple[str, str]
) -> Iterator[ObservationDiff]:
    if first == second:
        return
    one, other = (f"shares memory with {owner}" if owner else "has its own memory" for owner in (first, second))
    yield ObservationDiff(f"{name} {one} {sides[0]}, {other} {sides[1]}", False)
