"""Inputs of `scaled_dot_product_attention`, to compare the kernel choice of a real device with our rules."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import torch


class Case(NamedTuple):
    """Shapes are (batch, heads, length, head size) of query and of key and value; see `tensors` for the rest."""

    dtype: str
    query: tuple[int, int, int, int]
    heads: int
    length: int
    narrow: int
    layout: str
    mask: str
    dropout: float
    causal: bool
    gqa: bool
    grad: bool


DTYPES = ("float32", "float16", "bfloat16", "float64")
LAYOUTS = ("heads", "plain", "transposed", "sliced")
MASKS = ("none", "none", "bool2", "bool4", "float4", "expanded", "learned", "column", "three")


def cases(count: int = 3000, seed: int = 7) -> list[Case]:
    """Return the same random cases on every call."""
    rng = random.Random(seed)
    return [_case(rng) for _ in range(count)]


def _case(rng: random.Random) -> Case:
    heads, head = (
        rng.choice((1, 4, 8)),
        rng.choice((1, 4, 8, 12, 20, 32, 64, 80, 96, 128, 136, 192, 200, 224, 256, 264)),
    )
    length = rng.choice((1, 2, 17, 64, 100, 128))
    return Case(
        dtype=rng.choice(DTYPES[:3]) if rng.random() < 0.97 else "float64",
        query=(rng.choice((1, 2)), heads, length, head),
        heads=heads if rng.random() < 0.8 else rng.choice((1, 2, 4)),
        length=length if rng.random() < 0.7 else rng.choice((1, 2, 64, 77)),
        narrow=head if rng.random() < 0.85 else rng.choice((32, 64, 128)),
        layout=rng.choice(LAYOUTS),
        mask=rng.choice(MASKS),
        dropout=rng.choice((0.0, 0.0, 0.1, 0.25, 0.5)),
        causal=rng.random() < 0.3,
        gqa=rng.random() < 0.3,
        grad=rng.random() < 0.5,
    )


def tensors(case: Case, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Return query, key, value and mask of a case."""
    batch, *_, head = case.query
    shapes = (case.query, (batch, case.heads, case.length, head), (batch, case.heads, case.length, case.narrow))
    query, key, value = (_laid_out(shape, case, device) for shape in shapes)
    return query, key, value, _mask(case, device)


def _laid_out(shape: tuple[int, ...], case: Case, device: str) -> torch.Tensor:
    options: dict[str, Any] = {"dtype": getattr(torch, case.dtype), "device": device}
    batch, heads, length, head = shape
    tensor = {
        "plain": lambda: torch.empty(shape, **options),
        "heads": lambda: torch.empty((batch, length, heads, head), **options).transpose(1, 2),
        "transposed": lambda: torch.empty((batch, heads, head, length), **options).transpose(2, 3),
        "sliced": lambda: torch.empty((batch, heads, length, head + 8), **options)[..., :head],
    }[case.layout]()
    return tensor.detach().requires_grad_(case.grad)


def _mask(case: Case, device: str) -> torch.Tensor | None:
    batch, heads, length, _ = case.query
    columns, dtype = case.length, getattr(torch, case.dtype)
    masks: dict[str, Callable[[], torch.Tensor | None]] = {
        "none": lambda: None,
        "bool2": lambda: torch.ones(length, columns, dtype=torch.bool, device=device),
        "bool4": lambda: torch.ones(batch, 1, length, columns, dtype=torch.bool, device=device),
        "float4": lambda: torch.zeros(batch, heads, length, columns, dtype=dtype, device=device),
        "expanded": lambda: torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device).expand(batch, 1, length, columns),
        "learned": lambda: torch.zeros(length, columns, dtype=dtype, device=device, requires_grad=True),
        "column": lambda: torch.ones(batch, 1, length, 1, dtype=torch.bool, device=device),
        "three": lambda: torch.zeros(heads, length, columns, dtype=dtype, device=device),
    }
    return masks[case.mask]()


def choice_of(case: Case, device: str) -> int:
    """Return torch's choice as a number of `SDPBackend`; -2 if it rejects the inputs."""
    query, key, value, mask = tensors(case, device)
    try:
        return int(torch._fused_sdp_choice(
            query, key, value, mask, case.dropout, case.causal, enable_gqa=case.gqa
        ))  # fmt: skip
    except RuntimeError:
        return -2
