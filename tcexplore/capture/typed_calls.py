"""A call that the user types: texts such as `f32[8, 64]` and `flag=True` for the arguments of a compiled call."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tcexplore.capture.entry import Call, EntryError, describe_call, describe_value, parse_value, split_name
from tcexplore.events.input_specs import split_arguments

_TENSOR = re.compile(
    r"(?P<tensor>[a-z]\w*\s*\[[\d\s,]*\])(?:\s+(?P<device>(?!stride|grad\b)[a-z]+(?::\d+)?))?"
    r"(?:\s+strides?\s*\[(?P<strides>[\d\s,]*)\])?(?P<grad>\s+grad)?"
)
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_MISSING = object()


def parse_typed_call(texts: Sequence[str], calls: Sequence[Call]) -> Call:
    """Return the call that the texts describe.

    A text that describes the original argument at its position keeps that object. A new tensor takes the device,
    `requires_grad`, layout and dynamic marks of the original at its position, and is a slice of another tensor if the
    original is one, which guards see; its values are arbitrary. In addition to `--input` specifications, texts may be
    lists, tuples and dicts of them, `f32[4,6] strides[1,4]`, `f32[4] grad`, and `f32[4] cuda:0`, as inputs on a GPU are
    described. Raises `EntryError`.
    """
    base = nearest_call(texts, calls)
    values = _TypedValues()
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in texts:
        name, value = split_name(text)
        if name is None:
            original = base.args[len(args)] if len(args) < len(base.args) else _MISSING
            args.append(values.parse(value, original))
        else:
            kwargs[name] = values.parse(value, base.kwargs.get(name, _MISSING))
    return Call(tuple(args), kwargs)


def nearest_call(texts: Sequence[str], calls: Sequence[Call]) -> Call:
    """Return the call with the most of these arguments, or of their sizes."""
    known = {describe_call(call): call for call in reversed(calls)}
    return known[nearest_texts(texts, [*reversed(known)])] if known else Call()


def nearest_texts(texts: Sequence[str], calls: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the first description with the most of these arguments, or of their sizes. There must be one."""

    def likeness(known: tuple[str, ...]) -> tuple[int, int]:
        sizes = sum(tensor_sizes(old) == tensor_sizes(new) for old, new in zip(known, texts, strict=False))
        return len(set(known) & set(texts)), sizes

    return max(calls, key=likeness)


_SIZES = re.compile(r"(?<=\w\[)(?<!strides\[)(?<!stride\[)[\d,\s]+(?=\])")
"""The sizes of a tensor in a text: `4, 8` in `mask=f32[4, 8] strides[1, 4]`."""


def link_sizes(original: Sequence[str], inputs: tuple[str, ...]) -> tuple[str, ...]:
    """Return `inputs`, with sizes of tensors that have those of `original` changed like equal sizes of the others."""
    if len(original) != len(inputs):
        return inputs
    changed: dict[int, int] = {}
    for old, new in zip(original, inputs, strict=True):
        for before, after in zip(tensor_sizes(old), tensor_sizes(new), strict=False):
            if len(before) == len(after):
                changed |= {a: b for a, b in zip(before, after, strict=True) if a != b}

    def link(match: re.Match[str]) -> str:
        return re.sub(r"\d+", lambda size: str(changed.get(int(size[0]), size[0])), match[0])

    return tuple(
        _SIZES.sub(link, new) if tensor_sizes(old) == tensor_sizes(new) else new
        for old, new in zip(original, inputs, strict=True)
    )


def tensor_sizes(text: str) -> list[list[int]]:
    return [[int(size) for size in re.findall(r"\d+", sizes)] for sizes in _SIZES.findall(text)]


class _TypedValues:
    """The values of one call. Equal texts for the same original object become one object."""

    def __init__(self) -> None:
        self._values: dict[tuple[int, str], Any] = {}

    def parse(self, text: str, original: Any) -> Any:
        text = text.strip()
        if original is not _MISSING and "".join(text.split()) == "".join(describe_value(original).split()):
            return original
        key = (id(original), text)
        if original is _MISSING or key not in self._values:
            self._values[key] = self._new_value(text, original)
        return self._values[key]

    def _new_value(self, text: str, original: Any) -> Any:
        tensor = _TENSOR.fullmatch(text)
        if tensor:
            return _new_tensor(tensor, text, original if isinstance(original, torch.Tensor) else None)
        if text[:1] in _CLOSING and text[-1:] == _CLOSING[text[:1]]:
            return _CONTAINERS[text[0]](self, split_arguments(text[1:-1]), original)
        return parse_value(text, text, None)

    def items(self, texts: list[str], original: Any) -> list[Any]:
        originals = list(original) if isinstance(original, list | tuple) else []
        return [self.parse(t, originals[n] if n < len(originals) else _MISSING) for n, t in enumerate(texts)]

    def mapping(self, texts: list[str], original: Any) -> dict[Any, Any]:
        originals = original if isinstance(original, dict) else {}
        keys = {str(key): key for key in originals}
        values = {}
        for text in texts:
            key_text, _, value = text.partition(":")
            name = key_text.strip().strip("'\"")
            key = keys.get(name, name)
            values[key] = self.parse(value, originals.get(key, _MISSING))
        return values


_CONTAINERS: dict[str, Callable[[_TypedValues, list[str], Any], Any]] = {
    "[": lambda values, texts, original: values.items(texts, original),
    "(": lambda values, texts, original: tuple(values.items(texts, original)),
    "{": lambda values, texts, original: values.mapping(texts, original),
}


def _new_tensor(match: re.Match[str], text: str, original: torch.Tensor | None) -> torch.Tensor:
    spec = parse_value(match["tensor"], text, torch.device("meta"))
    device = _device(match, text, original)
    if match["strides"] is not None:
        strides = tuple(int(part) for part in match["strides"].split(",") if part.strip())
        if len(strides) != spec.dim():
            raise EntryError(f"{text!r} has {spec.dim()} dimensions and {len(strides)} strides.", "", "arguments")
        tensor = torch.empty_strided(spec.shape, strides, dtype=spec.dtype, device=device)
    else:
        sliced = None if original is None or original.device != device else _sliced(spec, original)
        order = _dim_order(spec, original)
        tensor = torch.empty_permuted(spec.shape, order, dtype=spec.dtype, device=device) if sliced is None else sliced
    requires_grad = bool(match["grad"]) or (original is not None and original.requires_grad)
    tensor.requires_grad_(requires_grad and (tensor.is_floating_point() or tensor.is_complex()))
    if original is not None and original.dim() == tensor.dim():
        vars(tensor).update({name: mark for name, mark in vars(original).items() if name.startswith("_dynamo_")})
    return tensor


def _device(match: re.Match[str], text: str, original: torch.Tensor | None) -> torch.device:
    """Return the device in a text, or else that of the original. Raises `EntryError` if torch knows no such device."""
    if match["device"] is None:
        return original.device if original is not None else torch.device("cpu")
    try:
        return torch.empty(0, device=match["device"]).device
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        reason = str(error).partition("\n")[0]
        raise EntryError(f"{text!r}: no tensor can be on {match['device']}: {reason}", "", "arguments") from None


def _sliced(spec: torch.Tensor, original: torch.Tensor) -> torch.Tensor | None:
    """Return a slice of a new tensor, as the original is one of its base; None if it is none, or another kind of view.

    The new base is larger than the slice by as much as the original's is.
    """
    base = base_to_imitate(original)
    if base is None or spec.dim() != original.dim() or base.stride() != original.stride():
        return None
    shape = [whole + new - old for whole, new, old in zip(base.shape, spec.shape, original.shape, strict=True)]
    whole = torch.empty_permuted(shape, _dim_order(spec, base), dtype=spec.dtype, device=original.device)
    offset, start = original.storage_offset() - base.storage_offset(), 0
    for dim in _dim_order(spec, base):
        stride = max(base.stride(dim), 1)
        start, offset = start + offset // stride * whole.stride(dim), offset % stride
    return whole.as_strided(spec.shape, whole.stride(), start)


LARGEST_BASE = 64 << 20
"""Bytes of the largest base that is made again: a batch may be a slice of a whole data set."""


def base_to_imitate(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return what the tensor is a view of; None if it is no view, or one of too large a tensor."""
    base = tensor._base
    return base if base is not None and base.nbytes <= LARGEST_BASE else None


def _dim_order(spec: torch.Tensor, original: torch.Tensor | None) -> tuple[int, ...]:
    """Return the order of the dimensions in memory, outermost first, as in the original tensor."""
    order = tuple(range(spec.dim()))
    if original is None or original.dim() != spec.dim() or original.is_contiguous():
        return order
    return tuple(sorted(order, key=lambda dim: -original.stride(dim)))
