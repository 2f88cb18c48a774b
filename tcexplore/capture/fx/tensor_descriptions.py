"""What a pane says of a tensor: dtype, shape, stride, device; read without adding a guard."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

try:
    from torch.utils._dtype_abbrs import dtype_abbrs
except ImportError:
    dtype_abbrs = {}


class TensorFacts(NamedTuple):
    """`shape` and `stride` have one text per dimension; `stride` is None where the layout has none."""

    dtype: str
    shape: tuple[str, ...]
    stride: tuple[str, ...] | None
    contiguous: bool
    device: str


def dtype_text(dtype: torch.dtype) -> str:
    """torch's own abbreviation (`f32`, `bf16`, `i64`), its name where this torch has no table of them."""
    return str(dtype_abbrs.get(dtype, str(dtype).removeprefix("torch.")))


def tensor_facts(value: Any) -> TensorFacts | None:
    """The facts of a tensor, fake ones with symbolic sizes included; None for anything else."""
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
    """Whether strides are those of a dense row-major tensor.

    Compares the expressions behind symbolic sizes: asking the tensor itself would specialize them.
    """
    sides = [(_expression(size), _expression(step)) for size, step in zip(shape, stride, strict=True)]
    if any(size == 0 for size, _ in sides):
        return True
    expected: Any = 1
    for size, step in reversed(sides):
        if size != 1 and step != expected:
            return False
        expected = expected * size
    return True


def _expression(size: Any) -> Any:
    return size if isinstance(size, int) else getattr(size.node, "expr", size)
