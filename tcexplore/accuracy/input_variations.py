"""Other inputs of the same shapes, to reach branches that the program's own inputs do not take."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tcexplore.capture.entry.entry import Call

Variation = Callable[[torch.Tensor], torch.Tensor]


def _redrawn(seed: int) -> Variation:
    def redraw(tensor: torch.Tensor) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        if tensor.is_floating_point():
            return tensor * 0 + torch.randn(tensor.shape, generator=generator).to(tensor)
        order = torch.randperm(tensor.numel(), generator=generator).to(tensor.device)
        return tensor.flatten()[order].view(tensor.shape)

    return redraw


def _floats(change: Variation, discrete: Variation = torch.clone) -> Variation:
    return lambda tensor: change(tensor) if tensor.is_floating_point() else discrete(tensor)


def _filled(value: float) -> Variation:
    """Set the first element."""

    def fill(tensor: torch.Tensor) -> torch.Tensor:
        changed = tensor.clone()
        if changed.numel():
            changed[(0,) * changed.dim()] = value
        return changed

    return fill


def _flipped(tensor: torch.Tensor) -> torch.Tensor:
    return ~tensor if tensor.dtype is torch.bool else _redrawn(0)(tensor)


def _extreme(largest: bool) -> Variation:
    """Set integers to the largest or smallest one that occurs, and booleans to true or false."""

    def extreme(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype is torch.bool or not tensor.numel():
            return torch.full_like(tensor, largest)
        return tensor.clone().fill_(tensor.max() if largest else tensor.min())

    return extreme


VARIATIONS: tuple[Variation, ...] = (
    _floats(torch.neg, _flipped),
    _floats(torch.zeros_like, _extreme(False)),
    _floats(lambda tensor: tensor + 1, _extreme(True)),
    _floats(_redrawn(1), _redrawn(1)),
)
"""Variations whose results are always compared."""

SEARCHED: tuple[Variation, ...] = (
    _floats(torch.abs), _floats(lambda tensor: -tensor.abs()), _floats(lambda tensor: tensor * 100),
    _floats(lambda tensor: tensor * -100), _floats(lambda tensor: tensor * 0.01), _floats(_redrawn(2), _redrawn(2)),
    _floats(_redrawn(3), _redrawn(3)), _floats(lambda tensor: tensor - 1), _floats(torch.ones_like),
    _floats(_filled(torch.nan)), _floats(_filled(torch.inf)), _floats(lambda tensor: tensor.abs() * 1e6),
    _floats(torch.clone, torch.zeros_like), _floats(torch.clone, torch.ones_like),
)  # fmt: skip
"""Variations that are tried as long as a branch is not reached."""

WEIGHTS: tuple[Variation, ...] = (torch.neg, torch.zeros_like, lambda tensor: tensor * 100)
"""Variations of the weights, tried as long as a branch is not reached."""


def vary(call: Call, variation: Variation) -> Call:
    """Return a call with other values of its real, integer and boolean tensors, of the same layout."""

    def varied(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor) or leaf.is_complex() or leaf.layout != torch.strided:
            return leaf
        changed = torch.empty_like(leaf, requires_grad=False).copy_(variation(leaf.detach()))
        return changed.requires_grad_(leaf.requires_grad)

    return call.map_leaves(varied)
