"""What differs between two observations beside the values, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from tcexplore.accuracy.observation import Observed
from tcexplore.capture.fx.tensor_descriptions import dtype_text


class ObservationDiff(NamedTuple):
    """A sentence; `breaks` tells that a caller gets something else, not only another layout of the same."""

    said: str
    breaks: bool


def differences(eager: Observed, compiled: Observed) -> Iterator[ObservationDiff]:
    """Every difference in what is there, in its dtype, shape, device, stride, in aliases and in plain values."""
    for kind in ("outputs", "gradients", "changed"):
        yield from _missing(kind, getattr(eager, kind), getattr(compiled, kind))
        for name in getattr(eager, kind).keys() & getattr(compiled, kind).keys():
            yield from _tensors(name, getattr(eager, kind)[name], getattr(compiled, kind)[name])
    for name, value in eager.plain.items():
        if compiled.plain.get(name) != value:
            yield ObservationDiff(f"{name} is {value!r} eagerly, {compiled.plain.get(name)!r} compiled", True)
    for name in eager.outputs.keys() & compiled.outputs.keys():
        yield from _aliases(name, eager.aliases.get(name), compiled.aliases.get(name))


def comparable(eager: torch.Tensor, compiled: torch.Tensor | None) -> bool:
    """Whether two tensors have values that can be compared, one by one."""
    if compiled is None:
        return False
    same = all(getattr(eager, fact) == getattr(compiled, fact) for fact in ("shape", "dtype", "device", "layout"))
    return same and eager.layout == torch.strided


def _missing(kind: str, eager: dict[str, torch.Tensor], compiled: dict[str, torch.Tensor]) -> Iterator[ObservationDiff]:
    is_there = {"outputs": "is returned", "gradients": "is there", "changed": "is changed"}[kind]
    for name in eager.keys() - compiled.keys():
        yield ObservationDiff(f"{name} {is_there} eagerly, not compiled", True)
    for name in compiled.keys() - eager.keys():
        yield ObservationDiff(f"{name} {is_there} compiled, not eagerly", True)


def _tensors(name: str, eager: torch.Tensor, compiled: torch.Tensor) -> Iterator[ObservationDiff]:
    facts = (
        ("shape", list(eager.shape), list(compiled.shape), True),
        ("dtype", dtype_text(eager.dtype), dtype_text(compiled.dtype), True),
        ("device", eager.device, compiled.device, True),
        ("stride", _strides(eager), _strides(compiled), False),
    )
    for fact, one, other, breaks in facts:
        if one != other and not (fact == "stride" and eager.shape != compiled.shape):
            yield ObservationDiff(f"{name} has {fact} {one} eagerly, {other} compiled", breaks)


def _strides(tensor: torch.Tensor) -> list[int] | None:
    """Of the dimensions in which there is more than one element: any other stride means nothing."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return None
    return [step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


def _aliases(name: str, eager: str | None, compiled: str | None) -> Iterator[ObservationDiff]:
    if eager == compiled:
        return
    one, other = (f"shares memory with {of}" if of else "has memory of its own" for of in (eager, compiled))
    yield ObservationDiff(f"{name} {one} eagerly, {other} compiled", False)
