"""The arguments of a call, remembered without keeping a tensor or an object of the user's alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tcexplore.capture.entry.entry import Call, EntryError
from tcexplore.capture.entry.entry_inputs import describe, described

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, type)


class Remembered:
    """`texts` describe the arguments; `call` has them again."""

    def __init__(self, call: Call) -> None:
        self.texts = describe(call)
        known: dict[int, Callable[[], Any]] = {}

        def kept(leaf: Any) -> _Kept:
            return _Kept(known.setdefault(id(leaf), _again(leaf)))

        self._args = pytree.tree_map(kept, call.args)
        self._kwargs = pytree.tree_map(kept, dict(call.kwargs))

    def call(self) -> Call:
        """The arguments: the objects themselves where they are still there; tensors that are gone as others like them.

        Raises `EntryError` where something else is gone.
        """
        made: dict[int, Any] = {}

        def again(kept: _Kept) -> Any:
            key = id(kept.again)
            if key not in made:
                made[key] = kept.again()
            return made[key]

        return Call(pytree.tree_map(again, self._args), pytree.tree_map(again, self._kwargs))


class _Kept:
    """One leaf, in a class of its own: pytree must not look into it."""

    def __init__(self, again: Callable[[], Any]) -> None:
        self.again = again


def _again(leaf: Any) -> Callable[[], Any]:
    if isinstance(leaf, _PLAIN):
        return lambda: leaf
    said = described(leaf)
    try:
        there = weakref.ref(leaf)
    except TypeError:  # it takes no weak reference
        return lambda: _gone(said)
    alike = _alike(leaf) if type(leaf) is torch.Tensor and leaf.layout is torch.strided else None
    return lambda: there() if there() is not None else alike() if alike is not None else _gone(said)


def _alike(tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
    size, stride, dtype, device = tuple(tensor.size()), tensor.stride(), tensor.dtype, tensor.device
    gradient, marks = tensor.requires_grad, {n: m for n, m in vars(tensor).items() if n.startswith("_dynamo_")}

    def made() -> torch.Tensor:
        other = torch.empty_strided(size, stride, dtype=dtype, device=device, requires_grad=gradient)
        vars(other).update(marks)
        return other

    return made


def _gone(said: str) -> Any:
    raise EntryError(f"An argument of that call, a {said}, is not there any more: nothing can be asked with it.")
