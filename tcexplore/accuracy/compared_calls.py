"""The program whose eager and compiled calls are compared, and the tensors of a call by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tcexplore.accuracy.python_state import PythonState
from tcexplore.capture.entry.entry import Call

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A program, eager and compiled, and the functions to call it."""

    eager: Function
    compiled: Function
    calls: tuple[Call, ...]
    call: Callable[[Function, Call], Any]
    """Makes one call as the run does, with its backward pass for `train`, and returns the output."""
    restore: Callable[[], object]
    """Sets inputs, gradients and state back to those before the call."""
    seed: Callable[[], None]
    """Seeds every random generator."""
    train: bool
    module: torch.nn.Module | None = None
    """The module with the parameters; None for a function."""
    unrandomized: Callable[[Callable[[Function], None]], Function] | None = None
    """Recompiles so that random numbers match eager's, and passes the result to its argument for a warm-up. None if
    compiled code already draws the same random numbers."""
    state: PythonState | None = None
    """The Python state, if calls are to be compared in it too."""
    gradient_compiled: Callable[[], Function] | None = None
    """Compiles again for calls with gradients or in another training mode; None if they are not compared."""


def input_tensors(call: Call) -> dict[str, torch.Tensor]:
    """Return the tensors in a call's arguments by name: `input[0]`, `input[1]['mask']`, `mask`."""
    positional = tensors_by_name(call.args, "input")
    return {**positional, **{k: v for name, arg in call.kwargs.items() for k, v in tensors_by_name(arg, name).items()}}


def tensors_by_name(value: Any, name: str) -> dict[str, torch.Tensor]:
    """Return every tensor in nested containers; a bare tensor has the plain name."""
    return {path: strided(leaf) for path, leaf in leaves(value, name) if isinstance(leaf, torch.Tensor)}


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values of a nested tensor, a sparse tensor as a dense one, or the tensor itself."""
    if tensor.is_nested:
        return tensor.values()
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield every leaf of nested containers with its name."""
    for path, leaf in pytree.tree_flatten_with_path(value)[0]:
        yield name + pytree.keystr(path), leaf


def storage_of(tensor: torch.Tensor) -> int | None:
    """Return the address of a tensor's memory, or None if it has none (sparse, meta, empty)."""
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (RuntimeError, NotImplementedError):
        return None


def size_of(tensors: Iterator[torch.Tensor] | list[torch.Tensor]) -> int:
    """Return the bytes of these tensors' elements, counting each tensor once."""
    return sum(tensor.numel() * tensor.element_size() for tensor in {id(t): t for t in tensors}.values())
