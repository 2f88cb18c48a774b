"""What eager keeps for the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch


def saved_for_backward(forward: Callable[[], object], known: Iterable[torch.Tensor]) -> int:
    """Bytes of the storages that autograd saves while `forward()` runs; those of `known` tensors are left out."""
    own = {tensor.untyped_storage().data_ptr() for tensor in known}
    saved: dict[int, int] = {}
    held: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage.nbytes()
            # Held, so that no later storage can come to lie at its address.
            held.append(tensor.detach())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        forward()
    return sum(saved.values())
