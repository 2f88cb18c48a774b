"""Observation of one call: copies of its outputs, gradients and side effects."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from tcexplore.accuracy.compared_calls import Function, Subject, input_tensors, leaves, storage_of, strided
from tcexplore.capture.entry.entry import Call

SIMPLE = (bool, int, float, complex, str, type(None))


@dataclass(slots=True)
class Observation:
    """The results and side effects of one call, by name."""

    outputs: dict[str, torch.Tensor] = field(default_factory=dict)
    gradients: dict[str, torch.Tensor] = field(default_factory=dict)
    changed: dict[str, torch.Tensor] = field(default_factory=dict)
    """Inputs and buffers that the call wrote to."""
    plain: dict[str, Any] = field(default_factory=dict)
    """Outputs that are not tensors."""
    aliases: dict[str, str] = field(default_factory=dict)
    """For an output, the input or earlier output whose memory it shares."""
    random: bool = False
    """Whether the call drew random numbers."""


def observe(subject: Subject, function: Function, call: Call, module: torch.nn.Module | None) -> Observation:
    """Make one call from a fresh seed and undo its side effects. Raises the exceptions of user code.

    `module` belongs to `function`: it is the subject's module or its float64 copy.
    """
    writable = {**input_tensors(call), **_buffers(module)}
    before = {name: _copy(tensor) for name, tensor in writable.items()}
    subject.seed()
    generators = _generator_states()
    try:
        observation = _observe_outputs(subject.call(function, call), input_tensors(call))
        observation.random = not _same_states(generators, _generator_states())
        observation.changed = {name: _copy(tensor) for name, tensor in _changed(writable, before)}
        if subject.train:
            observation.gradients = {f"gradient of {name}": _copy(grad) for name, grad in _gradients(module, call)}
    finally:
        _restore(writable, before)
        subject.restore()
        _clear_gradients(module, call)
    return observation


def _observe_outputs(output: Any, inputs: dict[str, torch.Tensor]) -> Observation:
    observation = Observation()
    owners = {storage_of(tensor): name for name, tensor in reversed(inputs.items()) if storage_of(tensor)}
    for name, leaf in leaves(output, "output"):
        if isinstance(leaf, torch.Tensor):
            observation.outputs[name] = _copy(strided(leaf))
            storage = storage_of(leaf)
            if storage in owners:
                observation.aliases[name] = owners[storage]
            elif storage is not None:
                owners[storage] = name
        elif isinstance(leaf, SIMPLE):
            observation.plain[name] = leaf
    return observation


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return a detached copy with the same strides; a later call may reuse the original's memory."""
    with torch.no_grad():
        return tensor.detach().clone()


def _buffers(module: torch.nn.Module | None) -> dict[str, torch.Tensor]:
    return {} if module is None else {f"buffer {name}": strided(buffer) for name, buffer in module.named_buffers()}


def _gradients(module: torch.nn.Module | None, call: Call) -> list[tuple[str, torch.Tensor]]:
    parameters = [] if module is None else list(module.named_parameters())
    tensors = [*parameters, *input_tensors(call).items()]
    return [(name, tensor.grad) for name, tensor in tensors if tensor.is_leaf and tensor.grad is not None]


def _clear_gradients(module: torch.nn.Module | None, call: Call) -> None:
    for tensor in (*(module.parameters() if module else ()), *input_tensors(call).values()):
        if tensor.is_leaf:
            tensor.grad = None


def _changed(tensors: dict[str, torch.Tensor], before: dict[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    """Compare values, since batch norm on a CPU writes running statistics without incrementing their version."""
    for name, tensor in tensors.items():
        if not torch.equal(tensor.detach(), before[name]):
            yield name, tensor


def _restore(tensors: dict[str, torch.Tensor], before: dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in _changed(tensors, before):
            if tensor.shape != before[name].shape:
                tensor.as_strided_(before[name].shape, before[name].stride())
            tensor.copy_(before[name])


def _generator_states() -> list[Any]:
    states: list[Any] = [torch.get_rng_state(), random.getstate()]
    if torch.cuda.is_initialized():
        states += torch.cuda.get_rng_state_all()
    return states


def _same_states(one: list[Any], other: list[Any]) -> bool:
    pairs = zip(one, other, strict=False)
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)
