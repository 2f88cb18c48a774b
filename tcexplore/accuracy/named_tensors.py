"""The tensors that a call takes and gives, each under a name that a user can find."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tcexplore.capture.entry.entry import Call


def inputs_of(call: Call) -> dict[str, torch.Tensor]:
    """The tensors in a call's arguments: `input[0]`, `input[1]['mask']`, `mask`."""
    positional = named(call.args, "input")
    return {**positional, **{k: v for name, value in call.kwargs.items() for k, v in named(value, name).items()}}


def named(value: Any, name: str) -> dict[str, torch.Tensor]:
    """Every tensor in a nest of containers; a lone one has the plain name."""
    return {where: leaf for where, leaf in leaves(value, name) if isinstance(leaf, torch.Tensor)}


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every leaf of a nest of containers, with its place."""
    for path, leaf in pytree.tree_flatten_with_path(value)[0]:
        yield name + pytree.keystr(path), leaf


def storage_of(tensor: torch.Tensor) -> int | None:
    """The address of the memory behind a tensor; None where it has none (sparse, meta, empty)."""
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (RuntimeError, NotImplementedError):
        return None


def size_of(tensors: Iterator[torch.Tensor] | list[torch.Tensor]) -> int:
    """Bytes of the elements of these tensors, each tensor once."""
    return sum(tensor.numel() * tensor.element_size() for tensor in {id(t): t for t in tensors}.values())
