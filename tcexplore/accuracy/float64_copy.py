"""A float64 copy of the model and its inputs."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tcexplore.accuracy.compared_calls import Function, Subject
from tcexplore.capture.entry.entry import Call
from tcexplore.quantities import size

MEMORY_DIVISOR = 4
"""The copy may use the free memory divided by this."""


class NoFloat64Error(Exception):
    """The program cannot run in float64; the message gives the reason."""


class Float64Copy:
    """A float64 copy of a subject's model. Raises `NoFloat64Error` if it cannot be made."""

    def __init__(self, subject: Subject) -> None:
        self.module: torch.nn.Module | None = None
        self.function: Function = subject.eager
        if subject.module is not None:
            _check_memory(subject)
            self.module = _copy_module(subject.module)
            self.function = _same_method(subject.eager, self.module)

    @staticmethod
    def call(call: Call) -> Call:
        """Return the call with its floating-point tensors in float64; a tensor passed twice is converted once."""
        converted: dict[int, torch.Tensor] = {}

        def widen(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
                return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf
            if id(leaf) not in converted:
                converted[id(leaf)] = leaf.detach().to(torch.float64, copy=True).requires_grad_(leaf.requires_grad)
            return converted[id(leaf)]

        return call.map_leaves(widen)


@contextmanager
def default_float64() -> Iterator[None]:
    """Make float64 the default dtype while the context is active."""
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(previous)


def _copy_module(module: torch.nn.Module) -> torch.nn.Module:
    try:
        with torch.no_grad():
            result: torch.nn.Module = copy.deepcopy(module).to(torch.float64)
    except Exception as error:  # deepcopy runs user code
        reason = str(error).partition("\n")[0]
        raise NoFloat64Error(f"the model cannot be copied to float64: {type(error).__name__}: {reason}") from error
    return result


def _same_method(eager: Function, module: torch.nn.Module) -> Function:
    """Return the counterpart of `eager`, which is a module or one of its methods, in `module`."""
    if getattr(eager, "__self__", None) is None:
        called: Function = module
        return called
    method: Function = getattr(module, eager.__name__)
    return method


def _check_memory(subject: Subject) -> None:
    """Raise `NoFloat64Error` if a copy takes too much memory."""
    assert subject.module is not None
    tensors = [*subject.module.parameters(), *subject.module.buffers()]
    elements = sum(tensor.numel() for tensor in tensors if tensor.is_floating_point())
    needed = elements * 8 * (2 if subject.train else 1)
    free = free_memory(next((t.device for t in tensors if t.device.type != "cpu"), torch.device("cpu")))
    if free is not None and needed > free // MEMORY_DIVISOR:
        budget = size(free // MEMORY_DIVISOR)
        raise NoFloat64Error(
            f"a float64 copy of the model takes {size(needed)}; a {MEMORY_DIVISOR}th of the free memory is {budget}"
        )


def free_memory(device: torch.device) -> int | None:
    """Return the free bytes on a device, or None if unknown."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
