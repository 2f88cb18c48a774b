"""Types and memory formats that a study tries without changing the file: autocast, channels last, float32 precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from tcexplore.capture.entry import Entry, EntryError, map_tensors
from tcexplore.events import Config

Function = Callable[..., Any]

IMAGE_DIMENSIONS = 4
"""Dimensions of the tensors that `torch.channels_last` is for."""


def in_precision(function: Function, device: torch.device, config: Config) -> Function:
    """Return the function with the autocast and the float32 precision of a configuration in effect in its calls.

    A compiled function must be given as such: its guards then check both settings, as in the user's own program.
    """
    if config.matmul_precision:
        function = _with_matmul_precision(function, config.matmul_precision)
    if (dtype := autocast_dtype(config)) is not None:
        function = _with_autocast(function, device.type, dtype)
    return function


def with_memory_format(entry: Entry, module: torch.nn.Module | None, config: Config) -> Entry:
    """Return the entry with its inputs in channels last, after converting its module, if the configuration says so."""
    if not config.channels_last:
        return entry
    if module is not None:
        module.to(memory_format=torch.channels_last)
    return replace(entry, calls=tuple(map_tensors(call, _to_channels_last) for call in entry.calls))


def _to_channels_last(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() == IMAGE_DIMENSIONS and tensor.is_floating_point():
        return tensor.contiguous(memory_format=torch.channels_last)
    return tensor


def _with_autocast(function: Function, device: str, dtype: torch.dtype) -> Function:
    def call_with_autocast(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device, dtype):
            return function(*args, **kwargs)

    return call_with_autocast


def _with_matmul_precision(function: Function, precision: str) -> Function:
    def call_with_precision(*args: Any, **kwargs: Any) -> Any:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(precision)
        try:
            return function(*args, **kwargs)
        finally:
            torch.set_float32_matmul_precision(before)

    return call_with_precision


def autocast_dtype(config: Config) -> torch.dtype | None:
    """Return the type of a configuration's autocast; None without autocast. Raise `EntryError` for an unknown type."""
    if not config.autocast:
        return None
    dtype = getattr(torch, config.autocast, None)
    if not isinstance(dtype, torch.dtype):
        raise EntryError(f"torch has no type {config.autocast!r}.", "Use bfloat16 or float16.", "arguments")
    return dtype
