"""Other calls than the configured ones (other inputs of the same shapes, gradients, training)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tcexplore.accuracy.observation import Function, Subject, output_leaves, storage_of
from tcexplore.capture.entry import Call

Variation = Callable[[torch.Tensor], torch.Tensor]


def _redrawn(seed: int) -> Variation:
    def redraw(tensor: torch.Tensor) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        if tensor.is_floating_point():
            return tensor * 0 + torch.randn(tensor.shape, generator=generator).to(tensor)
        order = torch.randperm(tensor.numel(), generator=generator).to(tensor.device)
        return tensor.flatten()[order].view(tensor.shape)

    return redraw


def _drawn_in_range(seed: int) -> Variation:
    """Draw integers between the least and the largest one that occurs, booleans, and finite numbers anew."""

    def draw(tensor: torch.Tensor) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        if tensor.is_floating_point():
            drawn = torch.randn(tensor.shape, generator=generator).to(tensor)
            return torch.where(tensor.isfinite(), drawn, tensor)  # as the -inf of a mask
        if tensor.dtype is torch.bool or not tensor.numel():
            return torch.randint(0, 2, tensor.shape, generator=generator).to(tensor)
        low, high = int(tensor.min()), int(tensor.max())
        return torch.randint(low, high + 1, tensor.shape, generator=generator).to(tensor)

    return draw


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

OTHER_VALUES: tuple[Variation, ...] = tuple(map(_drawn_in_range, (1, 2, 3)))
"""Usual values of the same kind, from which also a sum or a maximum is another one."""

SEARCHED: tuple[Variation, ...] = (
    _floats(torch.abs), _floats(lambda tensor: -tensor.abs()), _floats(lambda tensor: tensor * 100),
    _floats(lambda tensor: tensor * -100), _floats(lambda tensor: tensor * 0.01), _floats(_redrawn(2), _redrawn(2)),
    _floats(_redrawn(3), _redrawn(3)), _floats(lambda tensor: tensor - 1), _floats(torch.ones_like),
    _floats(_filled(torch.nan)), _floats(_filled(torch.inf)), _floats(lambda tensor: tensor.abs() * 1e6),
    _floats(torch.clone, torch.zeros_like), _floats(torch.clone, torch.ones_like),
)  # fmt: skip
"""Variations that are tried as long as a branch is not reached."""

WEIGHTS: tuple[Variation, ...] = (torch.neg, torch.zeros_like, lambda tensor: tensor * 10, lambda tensor: tensor * 100)
"""Variations of the weights, tried as long as a branch is not reached.

Large weights come last: of several layers, they let one rounding grow to any size.
"""


def vary(call: Call, variation: Variation) -> Call:
    """Return a call with other values of its real, integer and boolean tensors, of the same layout."""

    def varied(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor) or leaf.is_complex() or leaf.layout != torch.strided:
            return leaf
        changed = torch.empty_like(leaf, requires_grad=False).copy_(variation(leaf.detach()))
        return changed.requires_grad_(leaf.requires_grad)

    return call.map_leaves(varied)


def have_equal_tensors(call: Call, other: Call) -> bool:
    """Return whether a variation of a call changes none of its tensors, as those of floats leave integers."""
    sides = [pytree.tree_leaves((each.args, each.kwargs)) for each in (call, other)]
    pairs = zip(*sides, strict=True)
    return all(torch.equal(a, b) for a, b in pairs if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor))


WITH_GRADIENTS = " with gradients"
"""End of the name of a mode in which gradients are compared."""


@dataclass(frozen=True, slots=True)
class CallMode:
    """A way to call a program."""

    name: str
    without_gradients: str
    """Its name for a program of which no result has a gradient."""
    training: bool | None
    """The mode that modules are switched to; None for a function."""
    compiled_without_gradients: bool = True
    """Whether compiled calls are compared even if no result has a gradient."""

    @contextmanager
    def applied(self, *subjects: Subject) -> Iterator[None]:
        """Switch the modules of all subjects."""
        modules = [m for subject in subjects if subject.module is not None for m in subject.module.modules()]
        previous = [module.training for module in modules]
        try:
            for module in modules:
                module.training = module.training if self.training is None else self.training
            yield
        finally:
            for module, training in zip(modules, previous, strict=True):
                module.training = training


def call_modes(before: Subject, after: Subject) -> tuple[CallMode, ...]:
    """Return the modes to compare besides the configured one."""
    if before.compile_for_mode is None and after.compile_for_mode is None:
        return ()
    if before.module is None:
        return () if after.train else (CallMode("with gradients", "with the grad mode on", None),)
    training = before.module.training
    modes = (
        # Nobody trains by a program without gradients: if the file chose evaluation, its code in training is not used.
        CallMode(
            "training mode with gradients",
            "training mode" if training else "training mode (eager only)",
            True,
            compiled_without_gradients=training,
        ),
        CallMode("evaluation mode with gradients", "evaluation mode with the grad mode on", False),
    )
    return tuple(mode for mode in modes if not (after.train and mode.training == training))


def calling_with_gradients(subject: Subject) -> Subject:
    """Return a subject whose calls compute the gradients of parameters and inputs."""

    def call_with_gradients(function: Function, call: Call) -> Any:
        with torch.enable_grad():
            output = function(*call.args, **call.kwargs)
            loss = _weighted_sum(output)
            if loss is not None:
                loss.backward()
        return output

    return replace(subject, call=call_with_gradients, train=True)


def with_gradients(call: Call) -> Call:
    """Return a call whose floating-point tensors compute gradients."""

    def with_gradient(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point() or leaf.layout != torch.strided:
            return leaf
        return leaf.detach().clone().requires_grad_()

    return call.map_leaves(with_gradient)


def _weighted_sum(output: Any) -> torch.Tensor | None:
    """Return a sum of all outputs with different weights, so that no gradient cancels out; None without gradients."""
    tensors = [tensor for _, tensor in output_leaves(output) if isinstance(tensor, torch.Tensor)]
    leaves = [torch.view_as_real(each) if each.is_complex() else each for each in tensors if each.requires_grad]
    sums = [
        (leaf.double() * torch.arange(1, leaf.numel() + 1, device=leaf.device).cos().view(leaf.shape)).sum()
        for leaf in leaves
        if leaf.is_floating_point() and leaf.layout == torch.strided
    ]
    return sum(sums[1:], start=sums[0]) if sums else None


@contextmanager
def varied_weights(subjects: tuple[Subject, Subject], variation: Variation | None) -> Iterator[None]:
    """Change the floating-point parameters of both programs."""
    modules = [subject.module for subject in subjects if subject.module is not None]
    parameters = [p for module in modules for p in module.parameters() if p.is_floating_point()]
    if variation is None:
        yield
        return
    originals = [parameter.detach().clone() for parameter in parameters]
    try:
        _set_weights(subjects, parameters, map(variation, [parameter.detach() for parameter in parameters]))
        yield
    finally:
        _set_weights(subjects, parameters, originals)


def _set_weights(
    subjects: Iterable[Subject], parameters: Sequence[torch.Tensor], values: Iterable[torch.Tensor]
) -> None:
    """Set parameters, also those in the Python state, which each call sets back.

    A function has the modules that it names in its state, and a module may have a view of a parameter there.
    """
    with torch.no_grad():
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(value)
    written = {storage_of(parameter) for parameter in parameters} - {None}
    for subject in subjects:
        if subject.state is not None:
            subject.state.keep_values(lambda tensor: storage_of(tensor) in written)
