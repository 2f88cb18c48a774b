"""The file's calls with other sizes and values, padded inputs, dynamic marks and tensors instead of numbers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import torch

from tcexplore.capture.entry import Call, Entry, EntryError, collect_tensors, map_tensors
from tcexplore.events import Config
from tcexplore.events.input_specs import Value, Vary, VaryError, parse_varies, parse_vary

_HINT = "Give an argument by name or by position, counted from 0: --vary 'x.0=1..64', --vary '0.0=1..64'."


def resize_calls(entry: Entry, dim: int, sizes: Sequence[int]) -> Entry:
    """Return the entry with each call made once per size. Without sizes, return the entry unchanged.

    The first tensor with dimension `dim` selects the size to change: every tensor of equal size there is resized.
    Raises `EntryError` if no input has that dimension, or if it is empty.
    """
    if not sizes:
        return entry
    return replace(entry, calls=tuple(_resize_call(call, dim, size) for call in entry.calls for size in sizes))


def _resize_call(call: Call, dim: int, size: int) -> Call:
    current = next((tensor.shape[dim] for tensor in collect_tensors((call,)) if tensor.dim() > dim), 0)
    if not current:
        raise EntryError(
            f"No input has a non-empty dimension {dim}.", "--dim counts from 0, as torch does.", "arguments"
        )
    return _map_dim(call, dim, current, lambda tensor: _resize_tensor(tensor, dim, size))


def vary_calls(entry: Entry, config: Config) -> Entry:
    """Return the entry with each call made for every combination of `config.vary`, the last argument changing fastest.

    With `config.own_calls_first`, the entry's own calls come before them.

    Then the calls are padded to buckets, numbers become tensors, and dimensions are marked, as `config` says.
    Raises `EntryError`.
    """
    try:
        vary = parse_varies(config.vary)
        buckets = [parse_vary(text if "=" in text else f"{text}=") for text in config.buckets]
        marks = [parse_vary(f"{text}=") for text in config.mark_dynamic]
        unbacked = [parse_vary(f"{text}=") for text in config.mark_unbacked]
    except VaryError as error:
        raise EntryError(f"--vary {error}.", _HINT, "arguments") from None
    arguments = Arguments(entry)
    calls: Sequence[Call] = entry.calls
    if vary:
        combinations = list(product(*(argument.values for argument in vary)))
        own = entry.calls if config.own_calls_first else ()
        calls = [*own, *(arguments.vary(call, vary, values) for call in calls for values in combinations)]
    unpadded = tuple(calls) if buckets else ()
    for bucket in buckets:
        calls = [arguments.pad(call, bucket) for call in calls]
    for name in config.as_tensors:
        calls = [arguments.change(call, name, torch.tensor) for call in calls]
    for mark in marks:
        for call in calls:
            _mark(torch._dynamo.mark_dynamic, arguments.value(call, mark.argument), mark.dim or 0)
    for mark in unbacked:
        for call in calls:
            _mark(torch._dynamo.decorators.mark_unbacked, arguments.value(call, mark.argument), mark.dim or 0)
    return replace(entry, calls=tuple(calls), unpadded=unpadded)


class Arguments:
    """Looks up the arguments of an entry's calls by name or position."""

    def __init__(self, entry: Entry) -> None:
        self._name = entry.name
        target = entry.target
        function = target.forward if isinstance(target, torch.nn.Module) else target
        try:
            parameters = dict(inspect.signature(function).parameters)
        except (ValueError, TypeError):
            parameters = {}
        self.names = tuple(parameters)
        self._defaults = {name: parameter.default for name, parameter in parameters.items()}

    def value(self, call: Call, argument: str) -> Any:
        """Return an argument of a call. Raises `EntryError` if the call lacks it."""
        key = self._key(call, argument)
        return call.args[key] if isinstance(key, int) else call.kwargs[key]

    def change(self, call: Call, argument: str, change: Callable[[Any], Any]) -> Call:
        """Return the call with one argument changed."""
        key = self._key(call, argument, allow_default=True)
        if isinstance(key, int):
            return replace(call, args=(*call.args[:key], change(call.args[key]), *call.args[key + 1 :]))
        return replace(call, kwargs={**call.kwargs, key: change(call.kwargs.get(key, self._defaults.get(key)))})

    def vary(self, call: Call, vary: Sequence[Vary], values: Sequence[Value]) -> Call:
        """Return the call with a value or a size for each varied argument."""
        for varied, value in zip(vary, values, strict=True):
            if varied.dim is None:
                call = self.change(call, varied.argument, lambda _, value=value: value)  # type: ignore[misc]
            else:
                call = self._resize(call, varied.argument, varied.dim, int(value or 0))
        return call

    def pad(self, call: Call, bucket: Vary) -> Call:
        """Return the call with a tensor, and all tensors of equal size, padded with zeros to the next bucket size.

        Without bucket sizes, pad to the next power of two.
        """
        dim = bucket.dim or 0
        size = self._tensor(call, bucket.argument, dim).shape[dim]
        buckets = [int(value or 0) for value in bucket.values] or [1 << max(size - 1, 0).bit_length()]
        padded = min((bucket_size for bucket_size in buckets if bucket_size >= size), default=size)
        return _map_dim(call, dim, size, lambda tensor: _pad_tensor(tensor, dim, padded))

    def _resize(self, call: Call, argument: str, dim: int, size: int) -> Call:
        current = self._tensor(call, argument, dim).shape[dim]
        if not current:
            raise EntryError(f"--vary {argument}.{dim}: the tensor is empty in this dimension.", _HINT, "arguments")
        return _map_dim(call, dim, current, lambda tensor: _resize_tensor(tensor, dim, size))

    def _tensor(self, call: Call, argument: str, dim: int) -> torch.Tensor:
        value = self.value(call, argument)
        if not isinstance(value, torch.Tensor) or value.dim() <= dim:
            problem = f"has {value.dim()} dimensions" if isinstance(value, torch.Tensor) else "is not a tensor"
            raise EntryError(f"--vary {argument}.{dim}: that argument {problem}.", _HINT, "arguments")
        return value

    def _key(self, call: Call, argument: str, *, allow_default: bool = False) -> int | str:
        """Return the position or the name of an argument in a call. Raises `EntryError` if the call lacks it."""
        if argument.isdecimal() and int(argument) < len(call.args):
            return int(argument)
        if argument in call.kwargs:
            return argument
        if argument in self.names and self.names.index(argument) < len(call.args):
            return self.names.index(argument)
        if allow_default and argument in self.names:
            return argument
        names = self.names if allow_default else self.names[: len(call.args)]
        known = ", ".join(dict.fromkeys((*names, *call.kwargs))) or f"{len(call.args)} without names"
        raise EntryError(f"`{self._name}` is called without an argument {argument!r}: it has {known}.", _HINT,
                         "arguments")  # fmt: skip


def _map_dim(call: Call, dim: int, size: int, change: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    """Return the call with every tensor of this size in `dim` changed: the inputs of a batch change together."""
    return map_tensors(call, lambda t: change(t) if t.dim() > dim and t.shape[dim] == size else t)


def _resize_tensor(tensor: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """Return the tensor with another size in a non-empty dimension, its values repeated or cut off."""
    with torch.no_grad():
        index = torch.arange(size, device=tensor.device) % tensor.shape[dim]
        return tensor.detach().index_select(dim, index).requires_grad_(tensor.requires_grad)


def _pad_tensor(tensor: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    padding_shape = list(tensor.shape)
    padding_shape[dim] = size - tensor.shape[dim]
    with torch.no_grad():
        padding = tensor.new_zeros(padding_shape)
        return torch.cat((tensor.detach(), padding), dim).requires_grad_(tensor.requires_grad)


def _mark(mark: Callable[[torch.Tensor, int], None], value: Any, dim: int) -> None:
    """Mark a dimension, except of size 0 or 1: torch specializes these, and refuses the mark of a dynamic one."""
    if isinstance(value, torch.Tensor) and value.dim() > dim and value.shape[dim] > 1:
        mark(value, dim)
