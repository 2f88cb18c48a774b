"""`--input` specifications: `f32[64,512]`, `mask=bool[64]`, `i64[2,8]<100`, or a Python literal."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from tcexplore.capture.entry.entry import Call, EntryError
from tcexplore.capture.fx.tensor_descriptions import dtype_text

_NAMED = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)(.*)", re.DOTALL)
_TENSOR = re.compile(r"\s*([a-z]\w*)\s*\[([\d\s,]*)\]\s*(?:<\s*(\d+)\s*)?")
_HINT = "Examples: --input 'f32[64,512]', 'mask=bool[64]', 'i64[2,8]<100', 'flag=True'."

DEFAULT_BOUND = 2
"""The exclusive upper bound of random integers, if the specification gives none."""


def parse_call(specs: Sequence[str], device: torch.device | None = None) -> Call:
    """Return a call with the specified arguments, with tensors on `device`. Raises `EntryError`."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for spec in specs:
        name, text = split_name(spec)
        if name is None:
            args.append(parse_value(text, spec, device))
        else:
            kwargs[name] = parse_value(text, spec, device)
    return Call(tuple(args), kwargs)


def split_name(spec: str) -> tuple[str | None, str]:
    """Split `mask=bool[64]` into name and value. The name is None for a positional argument."""
    named = _NAMED.fullmatch(spec)
    return (None, spec) if named is None else (named[1], named[2])


def parse_value(text: str, spec: str, device: torch.device | None) -> Any:
    """Return the value of `text`, which is part of the specification `spec`. Raises `EntryError`."""
    tensor = _TENSOR.fullmatch(text)
    if tensor is not None:
        return _make_tensor(tensor, spec, device)
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise EntryError(f"--input {spec!r} is neither a tensor nor a Python value.", _HINT, "arguments") from None


def _make_tensor(match: re.Match[str], spec: str, device: torch.device | None) -> torch.Tensor:
    name, sizes, bound = match.groups()
    dtype = dtypes_by_name().get(name)
    if dtype is None:
        known = ", ".join(sorted(n for n in dtypes_by_name() if len(n) <= 4))
        raise EntryError(f"--input {spec!r}: there is no dtype {name!r}.", f"torch has {known} and more.", "arguments")
    try:
        shape = tuple(int(size) for size in sizes.split(",")) if sizes.strip() else ()
    except ValueError:
        raise EntryError(f"--input {spec!r}: {sizes!r} is not a shape.", _HINT, "arguments") from None
    if device is not None and device.type == "meta":
        return torch.empty(shape, dtype=dtype, device=device)
    return _random_tensor(dtype, shape, int(bound) if bound else DEFAULT_BOUND).to(device)


def _random_tensor(dtype: torch.dtype, shape: tuple[int, ...], bound: int) -> torch.Tensor:
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex64 if dtype.is_complex else torch.float32
        return torch.randn(shape, dtype=wide).to(dtype)
    return torch.randint(0, max(bound, 1), shape).to(dtype)


@cache
def dtypes_by_name() -> dict[str, torch.dtype]:
    """Return every dtype by torch's name and by its abbreviation."""
    dtypes = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
    return dtypes | {dtype_text(value): value for value in dtypes.values()}
