"""Dtype, shape, stride and device of a tensor, read without adding a guard."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import sympy
import torch

from tcexplore.torch_text.guard_text import tensor_text

try:
    from torch.utils._dtype_abbrs import dtype_abbrs
except ImportError:
    dtype_abbrs = {}


class TensorFacts(NamedTuple):
    """A tensor's properties as text."""

    dtype: str
    shape: tuple[str, ...]
    """One text per dimension, a symbol where the size is dynamic."""
    stride: tuple[str, ...] | None
    """None for a layout without strides."""
    contiguous: bool
    device: str

    @property
    def text(self) -> str:
        """Dtype, sizes, device and layout in one line."""
        return tensor_text(self.dtype, self.shape, self.device, None if self.contiguous else self.stride or ())


def dtype_text(dtype: torch.dtype) -> str:
    """Return torch's abbreviation (`f32`, `bf16`, `i64`), or the full name if this torch has no abbreviations."""
    return str(dtype_abbrs.get(dtype, str(dtype).removeprefix("torch.")))


def tensor_facts(value: Any) -> TensorFacts | None:
    """Return the facts of a tensor, also of a fake one with symbolic sizes, and None for any other object."""
    if not isinstance(value, torch.Tensor):
        return None
    stride = tuple(value.stride()) if value.layout is torch.strided else None
    return TensorFacts(
        dtype_text(value.dtype),
        tuple(map(str, value.shape)),
        None if stride is None else tuple(map(str, stride)),
        stride is None or is_contiguous(value.shape, stride),
        str(value.device),
    )


def is_contiguous(shape: Iterable[Any], stride: Iterable[Any]) -> bool:
    """Return whether the strides are those of a dense row-major tensor.

    Compares the expressions of symbolic sizes: `tensor.is_contiguous()` would specialize them.
    """
    sides = [(_expression(size), _expression(step)) for size, step in zip(shape, stride, strict=True)]
    if any(size == 0 for size, _ in sides):
        return True
    expected: Any = 1
    for size, step in reversed(sides):
        if size != 1 and not _equal(step, expected):
            return False
        expected = expected * size
    return True


_SAMPLES = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049)
"""Values of symbols at which expressions such as `Max(1, s0)*s1` and `s0*s1` are compared."""


def _equal(step: Any, expected: Any) -> bool:
    if step == expected:
        return True
    symbols = sorted(getattr(step, "free_symbols", set()) | getattr(expected, "free_symbols", set()), key=str)
    if not symbols or len(symbols) > len(_SAMPLES):
        return False
    values = dict(zip(symbols, _SAMPLES, strict=False))
    return bool(sympy.sympify(step).subs(values) == sympy.sympify(expected).subs(values))


def _expression(size: Any) -> Any:
    return size if isinstance(size, int) else getattr(size.node, "expr", size)
