"""One call of one side, and everything that it left behind, copied before anything else can change it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from tcexplore.accuracy.compared_calls import Function, Subject
from tcexplore.accuracy.named_tensors import inputs_of, leaves, storage_of
from tcexplore.capture.entry.entry import Call

SIMPLE = (bool, int, float, complex, str, type(None))


@dataclass(slots=True)
class Observed:
    """What one call gave. `outputs` and `gradients` by name; `changed` are inputs and buffers that it wrote to.

    `plain` are outputs that are no tensors; `aliases` says for each output which input, or earlier output, it shares
    memory with. `drew` tells that random numbers were drawn.
    """

    outputs: dict[str, torch.Tensor] = field(default_factory=dict)
    gradients: dict[str, torch.Tensor] = field(default_factory=dict)
    changed: dict[str, torch.Tensor] = field(default_factory=dict)
    plain: dict[str, Any] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    drew: bool = False


def observe(subject: Subject, function: Function, call: Call, module: torch.nn.Module | None) -> Observed:
    """Make one call from a fresh seed and put everything back. Raises what the user's code raises.

    `module` is the one that `function` runs: the subject's own, or its float64 copy.
    """
    written = {**inputs_of(call), **_buffers(module)}
    before = {name: _copy(tensor) for name, tensor in written.items()}
    subject.seed()
    generators = _generators()
    try:
        found = _made(subject.call(function, call), inputs_of(call))
        found.drew = not _same(generators, _generators())
        found.changed = {name: _copy(tensor) for name, tensor in _changed(written, before)}
        if subject.train:
            found.gradients = {f"gradient of {name}": _copy(grad) for name, grad in _gradients(module, call)}
    finally:
        _put_back(written, before)
        subject.restore()
        _forget_gradients(module, call)
    return found


def _made(output: Any, inputs: dict[str, torch.Tensor]) -> Observed:
    found = Observed()
    owners = {storage_of(tensor): name for name, tensor in reversed(inputs.items()) if storage_of(tensor)}
    for name, leaf in leaves(output, "output"):
        if isinstance(leaf, torch.Tensor):
            found.outputs[name] = _copy(leaf)
            storage = storage_of(leaf)
            if storage in owners:
                found.aliases[name] = owners[storage]
            elif storage is not None:
                owners[storage] = name
        elif isinstance(leaf, SIMPLE):
            found.plain[name] = leaf
    return found


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, away from the autograd graph and from memory that a later call may reuse."""
    with torch.no_grad():
        return tensor.detach().clone()


def _buffers(module: torch.nn.Module | None) -> dict[str, torch.Tensor]:
    return {} if module is None else {f"buffer {name}": buffer for name, buffer in module.named_buffers()}


def _gradients(module: torch.nn.Module | None, call: Call) -> list[tuple[str, torch.Tensor]]:
    parameters = [] if module is None else list(module.named_parameters())
    tensors = [*parameters, *inputs_of(call).items()]
    return [(name, tensor.grad) for name, tensor in tensors if tensor.is_leaf and tensor.grad is not None]


def _forget_gradients(module: torch.nn.Module | None, call: Call) -> None:
    for tensor in (*(module.parameters() if module else ()), *inputs_of(call).values()):
        if tensor.is_leaf:
            tensor.grad = None


def _changed(written: dict[str, torch.Tensor], before: dict[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    """By value: batch norm on a CPU writes to its running statistics without moving their version."""
    for name, tensor in written.items():
        if not torch.equal(tensor.detach(), before[name]):
            yield name, tensor


def _put_back(written: dict[str, torch.Tensor], before: dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in _changed(written, before):
            tensor.copy_(before[name])


def _generators() -> list[Any]:
    states: list[Any] = [torch.get_rng_state(), random.getstate()]
    if torch.cuda.is_initialized():
        states += torch.cuda.get_rng_state_all()
    return states


def _same(one: list[Any], other: list[Any]) -> bool:
    pairs = zip(one, other, strict=False)
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)
