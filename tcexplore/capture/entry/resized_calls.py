"""The file's calls at other sizes of one dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tcexplore.capture.entry.entry import Call, Entry, EntryError
from tcexplore.capture.entry.entry_inputs import tensors_of


def resized(entry: Entry, dim: int, sizes: Sequence[int]) -> Entry:
    """The entry with each of its calls made once for each size; as it is without sizes.

    The first tensor that has dimension `dim` says which size is meant: every tensor that is as large there gets the
    new size, its values repeated or cut off. Raises `EntryError` where no input has that dimension, or it is empty.
    """
    if not sizes:
        return entry
    calls = tuple(_call(call, dim, size) for call in entry.calls for size in sizes)
    return replace(entry, calls=calls)


def _call(call: Call, dim: int, size: int) -> Call:
    tensors = tensors_of((call,))
    found = next((tensor.shape[dim] for tensor in tensors if tensor.dim() > dim), 0)
    if not found:
        raise EntryError(
            f"No input has anything in dimension {dim}.", "--dim counts from 0, as torch does.", "arguments"
        )
    known: dict[int, torch.Tensor] = {}

    def resize(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.dim() <= dim or leaf.shape[dim] != found:
            return leaf
        if id(leaf) not in known:
            known[id(leaf)] = sized(leaf, dim, size)
        return known[id(leaf)]

    return Call(pytree.tree_map(resize, call.args), pytree.tree_map(resize, dict(call.kwargs)))


def sized(tensor: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """The tensor at another size of one dimension, which is not empty: its values repeated, or cut off."""
    with torch.no_grad():
        index = torch.arange(size, device=tensor.device) % tensor.shape[dim]
        return tensor.detach().index_select(dim, index).requires_grad_(tensor.requires_grad)
