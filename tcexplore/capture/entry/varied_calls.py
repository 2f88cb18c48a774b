"""The file's calls with arguments varied, and treated against recompiling."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tcexplore.capture.entry.entry import Call, Entry, EntryError
from tcexplore.capture.entry.resized_calls import sized
from tcexplore.events import Config
from tcexplore.events.vary_spec import Value, Vary, VaryError, parse, parse_all

_HINT = "An argument goes by its name or by its position from 0 on: --vary 'x.0=1..64', --vary '0.0=1..64'."


def varied(entry: Entry, config: Config) -> Entry:
    """The entry with each of its calls made for every combination of `config.vary`, the last one changing fastest, and
    with what `config` says of marks, tensors and buckets done to them. Raises `EntryError`.
    """
    try:
        vary = parse_all(config.vary)
        buckets = [parse(text if "=" in text else f"{text}=") for text in config.buckets]
        marks, tensors = [parse(f"{text}=") for text in config.mark_dynamic], config.as_tensors
    except VaryError as error:
        raise EntryError(f"--vary {error}.", _HINT, "arguments") from None
    arguments = _Arguments(entry)
    calls: Sequence[Call] = entry.calls
    if vary:
        combined = list(product(*(one.values for one in vary)))
        calls = [arguments.changed(call, vary, values) for call in calls for values in combined]
    unpadded = tuple(calls) if buckets else ()
    for bucket in buckets:
        calls = [arguments.padded(call, bucket) for call in calls]
    for name in tensors:
        calls = [arguments.replaced(call, name, torch.tensor) for call in calls]
    for mark in marks:
        for call in calls:
            _mark(arguments.of(call, mark.argument), mark.dim or 0)
    return replace(entry, calls=tuple(calls), unpadded=unpadded)


class _Arguments:
    """Finds the arguments of an entry's calls by name or position."""

    def __init__(self, entry: Entry) -> None:
        self._name = entry.name
        target = entry.target
        function = target.forward if isinstance(target, torch.nn.Module) else target
        try:
            self._names = tuple(inspect.signature(function).parameters)
        except (ValueError, TypeError):
            self._names = ()

    def of(self, call: Call, argument: str) -> Any:
        key = self._key(call, argument)
        return call.args[key] if isinstance(key, int) else call.kwargs[key]

    def replaced(self, call: Call, argument: str, change: Callable[[Any], Any]) -> Call:
        """The call with one argument changed."""
        key = self._key(call, argument, missing=True)
        if isinstance(key, int):
            return replace(call, args=(*call.args[:key], change(call.args[key]), *call.args[key + 1 :]))
        return replace(call, kwargs={**call.kwargs, key: change(call.kwargs.get(key))})

    def changed(self, call: Call, vary: Sequence[Vary], values: Sequence[Value]) -> Call:
        """The call with a value, or a size, for each argument that is varied."""
        for one, value in zip(vary, values, strict=True):
            if one.dim is None:
                call = self.replaced(call, one.argument, lambda _, value=value: value)  # type: ignore[misc]
            else:
                call = self._sized(call, one.argument, one.dim, int(value or 0))
        return call

    def padded(self, call: Call, bucket: Vary) -> Call:
        """The call with a tensor, and those as large along with it, padded with zeros to the next of the sizes; to the
        next power of two where there are none."""
        tensor, dim = self._tensor(call, bucket.argument, bucket.dim or 0), bucket.dim or 0
        size = tensor.shape[dim]
        sizes = [int(value or 0) for value in bucket.values] or [1 << max(size - 1, 0).bit_length()]
        wanted = min((found for found in sizes if found >= size), default=size)
        return _each(call, dim, size, lambda found: _padded(found, dim, wanted))

    def _sized(self, call: Call, argument: str, dim: int, size: int) -> Call:
        tensor = self._tensor(call, argument, dim)
        if not tensor.shape[dim]:
            raise EntryError(f"--vary {argument}.{dim}: the tensor is empty there.", _HINT, "arguments")
        return _each(call, dim, tensor.shape[dim], lambda found: sized(found, dim, size))

    def _tensor(self, call: Call, argument: str, dim: int) -> torch.Tensor:
        value = self.of(call, argument)
        if not isinstance(value, torch.Tensor) or value.dim() <= dim:
            kind = f"has {value.dim()} dimensions" if isinstance(value, torch.Tensor) else "is no tensor"
            raise EntryError(f"--vary {argument}.{dim}: that argument {kind}.", _HINT, "arguments")
        return value

    def _key(self, call: Call, argument: str, *, missing: bool = False) -> int | str:
        """Where a call has the argument: a position or a name. Raises `EntryError` where it has none."""
        if argument.isdecimal() and int(argument) < len(call.args):
            return int(argument)
        if argument in call.kwargs:
            return argument
        if argument in self._names and self._names.index(argument) < len(call.args):
            return self._names.index(argument)
        if missing and argument in self._names:
            return argument
        names = self._names if missing else self._names[: len(call.args)]
        known = ", ".join(dict.fromkeys((*names, *call.kwargs))) or f"{len(call.args)} without names"
        raise EntryError(f"`{self._name}` is called without an argument {argument!r}: it has {known}.", _HINT,
                         "arguments")  # fmt: skip


def _each(call: Call, dim: int, size: int, change: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    """The call with every tensor that is `size` long in `dim` changed: inputs of one batch grow together."""
    known: dict[int, torch.Tensor] = {}

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.dim() <= dim or leaf.shape[dim] != size:
            return leaf
        if id(leaf) not in known:
            known[id(leaf)] = change(leaf)
        return known[id(leaf)]

    return Call(pytree.tree_map(one, call.args), pytree.tree_map(one, dict(call.kwargs)))


def _padded(tensor: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    missing = list(tensor.shape)
    missing[dim] = size - tensor.shape[dim]
    with torch.no_grad():
        rest = tensor.new_zeros(missing)
        return torch.cat((tensor.detach(), rest), dim).requires_grad_(tensor.requires_grad)


def _mark(tensor: Any, dim: int) -> None:
    """Sizes 0 and 1 always get a graph of their own: torch takes no mark there."""
    if isinstance(tensor, torch.Tensor) and tensor.dim() > dim and tensor.shape[dim] > 1:
        torch._dynamo.mark_dynamic(tensor, dim)
