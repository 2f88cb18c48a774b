"""Ways to call a program other than the configured one: with gradients, and in training or evaluation mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tcexplore.accuracy.compared_calls import Function, Subject
from tcexplore.capture.entry.entry import Call


@dataclass(frozen=True, slots=True)
class CallMode:
    """A way to call a program."""

    name: str
    training: bool | None
    """The mode that modules are switched to; None for a function."""

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
    if before.gradient_compiled is None and after.gradient_compiled is None:
        return ()
    if before.module is None:
        return () if after.train else (CallMode("with gradients", None),)
    training = before.module.training
    modes = (CallMode("training mode with gradients", True), CallMode("evaluation mode with gradients", False))
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
    leaves = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    sums = [
        (leaf.double() * torch.arange(1, leaf.numel() + 1, device=leaf.device).cos().view(leaf.shape)).sum()
        for leaf in leaves
        if leaf.is_floating_point() and leaf.layout == torch.strided
    ]
    return sum(sums[1:], start=sums[0]) if sums else None
