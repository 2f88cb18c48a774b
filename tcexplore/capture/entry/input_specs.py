"""`--input` specifications: `f32[64,512]`, `mask=bool[64]`, `i64[2,8]<100`, or a Python literal."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

import torch

from tcexplore.capture.entry.entry import Call, EntryError
from tcexplore.capture.fx.tensor_descriptions import dtype_text

_NAMED = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)(.*)", re.DOTALL)
_TENSOR = re.compile(r"\s*([a-z]\w*)\s*\[([\d\s,]*)\]\s*(?:<\s*(\d+)\s*)?")
_HINT = "Write for instance --input 'f32[64,512]', 'mask=bool[64]', 'i64[2,8]<100' or 'flag=True'."

DEFAULT_BOUND = 2
"""Integers are drawn from 0 up to, but not including, this where the specification gives no bound."""


def call_from(specs: Sequence[str], device: torch.device | None = None) -> Call:
    """One call with the specified arguments, tensors on `device`. Raises `EntryError`."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for spec in specs:
        name, text = named_argument(spec)
        if name is None:
            args.append(value_from(text, spec, device))
        else:
            kwargs[name] = value_from(text, spec, device)
    return Call(tuple(args), kwargs)


def named_argument(spec: str) -> tuple[str | None, str]:
    """`mask=bool[64]` as name and value; without a name, None."""
    named = _NAMED.fullmatch(spec)
    return (None, spec) if named is None else (named[1], named[2])


def value_from(text: str, spec: str, device: torch.device | None) -> Any:
    """The value that `text` stands for; `spec` is what the user typed as a whole. Raises `EntryError`."""
    tensor = _TENSOR.fullmatch(text)
    if tensor is not None:
        return _tensor(tensor, spec, device)
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise EntryError(f"--input {spec!r} is neither a tensor nor a Python value.", _HINT, "arguments") from None


def _tensor(match: re.Match[str], spec: str, device: torch.device | None) -> torch.Tensor:
    name, sizes, bound = match.groups()
    dtype = _dtypes().get(name)
    if dtype is None:
        known = ", ".join(sorted(n for n in _dtypes() if len(n) <= 4))
        raise EntryError(f"--input {spec!r}: there is no dtype {name!r}.", f"torch has {known} and more.", "arguments")
    try:
        shape = tuple(int(size) for size in sizes.split(",")) if sizes.strip() else ()
    except ValueError:
        raise EntryError(f"--input {spec!r}: {sizes!r} is no shape.", _HINT, "arguments") from None
    if device is not None and device.type == "meta":
        return torch.empty(shape, dtype=dtype, device=device)
    return _drawn(dtype, shape, int(bound) if bound else DEFAULT_BOUND).to(device)


def _drawn(dtype: torch.dtype, shape: tuple[int, ...], bound: int) -> torch.Tensor:
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex64 if dtype.is_complex else torch.float32
        return torch.randn(shape, dtype=wide).to(dtype)
    return torch.randint(0, max(bound, 1), shape).to(dtype)


def _dtypes() -> dict[str, torch.dtype]:
    """Every dtype by torch's name, by its abbreviation, and `bool` also as the word."""
    dtypes = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
    return dtypes | {dtype_text(value): value for value in dtypes.values()}
