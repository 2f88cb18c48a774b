"""The same program in float64: a copy of the model and of the inputs, where that can be had."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tcexplore.accuracy.compared_calls import Function, Subject
from tcexplore.capture.entry.entry import Call
from tcexplore.quantities import size

SHARE = 4
"""One part in so many of the free memory may be taken."""


class NoDoubleError(Exception):
    """There is no float64 run of this program, and why."""


class Double:
    """A float64 copy of a subject's model. Raises `NoDoubleError` where it has none."""

    def __init__(self, subject: Subject) -> None:
        self.module: torch.nn.Module | None = None
        self.function: Function = subject.eager
        if subject.module is not None:
            _refuse_large(subject)
            self.module = _copied(subject.module)
            self.function = _same_method(subject.eager, self.module)

    @staticmethod
    def call(call: Call) -> Call:
        """The call with its floating-point tensors in float64; tensors that were one stay one."""
        known: dict[int, torch.Tensor] = {}

        def wide(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
                return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf
            if id(leaf) not in known:
                known[id(leaf)] = leaf.detach().to(torch.float64, copy=True).requires_grad_(leaf.requires_grad)
            return known[id(leaf)]

        return Call(pytree.tree_map(wide, call.args), pytree.tree_map(wide, dict(call.kwargs)))


@contextmanager
def double_by_default() -> Iterator[None]:
    """While inside, tensors that the model makes without naming a dtype are float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _copied(module: torch.nn.Module) -> torch.nn.Module:
    try:
        with torch.no_grad():
            copied: torch.nn.Module = copy.deepcopy(module).to(torch.float64)
    except Exception as error:
        said = str(error).partition("\n")[0]
        raise NoDoubleError(f"the model cannot be copied to float64: {type(error).__name__}: {said}") from error
    return copied


def _same_method(eager: Function, module: torch.nn.Module) -> Function:
    """`eager` is the module itself, or a method of it."""
    if getattr(eager, "__self__", None) is None:
        called: Function = module
        return called
    method: Function = getattr(module, eager.__name__)
    return method


def _refuse_large(subject: Subject) -> None:
    assert subject.module is not None
    tensors = [*subject.module.parameters(), *subject.module.buffers()]
    elements = sum(tensor.numel() for tensor in tensors if tensor.is_floating_point())
    needed = elements * 8 * (2 if subject.train else 1)
    free = free_memory(next((t.device for t in tensors if t.device.type != "cpu"), torch.device("cpu")))
    if free is not None and needed > free // SHARE:
        raise NoDoubleError(
            f"a float64 copy of the model takes {size(needed)}; a {SHARE}th of the free memory is {size(free // SHARE)}"
        )


def free_memory(device: torch.device) -> int | None:
    """Bytes that can still be had on a device; None where nothing tells."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
