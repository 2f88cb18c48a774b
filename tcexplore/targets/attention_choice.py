"""Which kernel `scaled_dot_product_attention` takes on the target, as torch 2.11 chooses.

torch chooses in C++, from the device: `select_sdp_backend` and the checks that it runs, in
`aten/src/ATen/native/transformers/cuda/sdp_utils.cpp` and `sdp_utils_cpp.h`. The rules for dense inputs are stated
here again for a device that is not in the machine; the tests hold them to choices recorded on a real one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.nn.attention import SDPBackend

from tcexplore.targets.device_table import Target

_HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True)
class AttentionQuery:
    """The arguments that the choice depends on; `training` when a gradient will be asked for."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    dropout: float
    causal: bool
    gqa: bool

    @property
    def training(self) -> bool:
        return torch.is_grad_enabled() and any(t.requires_grad for t in (self.query, self.key, self.value))

    @property
    def qkv(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.query, self.key, self.value


def choose(question: AttentionQuery, target: Target) -> SDPBackend:
    """The backend that torch takes on `target`. Raises `RuntimeError` when the user allows none that fits."""
    for backend in _order(target):
        if _CAN[backend](question, target):
            return backend
    raise RuntimeError("no attention kernel that is enabled can run these inputs on the target")


def _order(target: Target) -> Iterator[SDPBackend]:
    numbers = [int(n) for n in torch._C._get_sdp_priority_order()]
    order = [b for n in numbers for b in _CAN if b.value == n]
    cudnn = SDPBackend.CUDNN_ATTENTION
    if order[0] is SDPBackend.FLASH_ATTENTION and _prefers_cudnn(target):
        order = [cudnn, *(b for b in order if b is not cudnn)]
    yield from order


def _prefers_cudnn(target: Target) -> bool:
    return target.backend == "cuda" and target.cudnn > 91500 and target.properties.major in (9, 10)


def _cudnn(q: AttentionQuery, target: Target) -> bool:
    return (
        torch.backends.cuda.cudnn_sdp_enabled()
        and target.backend == "cuda"
        and target.cudnn >= 90000
        and not torch.are_deterministic_algorithms_enabled()
        and _four_dimensional(q)
        and _dtype(q, _HALVES)
        and _cudnn_mask(q)
        and target.capability >= (8, 0)
        and not (q.dropout > 0 and 91100 < target.cudnn < 91400)
        and _not_empty(q)
        and _last_stride(q, ignore_single=True)
        and _heads(q, gqa=True, same_kv=False)
        and _cudnn_shapes(q, target)
    )


def _cudnn_mask(q: AttentionQuery) -> bool:
    if q.mask is None:
        return True
    (batch, heads, rows), columns, mask = q.query.shape[:3], q.key.shape[2], q.mask
    fits = mask.size(-2) in (rows, 1) and mask.size(-1) in (columns, 1) and not mask.requires_grad
    full = mask.dim() == 4 and mask.size(0) in (1, batch) and mask.size(1) in (1, heads)
    return bool(fits and (mask.dim() == 2 or full))


def _cudnn_shapes(q: AttentionQuery, target: Target) -> bool:
    wide, narrow = q.query.size(3), q.value.size(3)
    hopper = target.capability == (9, 0) or target.properties.major == 10
    limit = 256 if hopper and target.cudnn >= 91000 else 128
    return bool(
        q.query.size(0) <= 65535
        and q.query.size(1) <= 65535
        and wide <= limit
        and narrow <= limit
        and wide % 8 == 0
        and narrow % 8 == 0
        and q.key.size(2) != 1
        and not (q.dropout and q.query.size(2) == 1)
    )


def _flash(q: AttentionQuery, target: Target) -> bool:
    head = q.query.size(-1)
    return bool(
        torch.backends.cuda.flash_sdp_enabled()
        and _four_dimensional(q)
        and q.mask is None
        and head == q.key.size(-1) == q.value.size(-1)
        and head <= (512 if target.backend == "hip" else 256)
        and (target.backend == "hip" or target.capability >= (8, 0))
        and _flash_backward(q, target)
        and not (q.causal and q.query.size(-2) != q.key.size(-2))
        and _dtype(q, _HALVES)
        and _heads(q, gqa=True, same_kv=True)
        and _not_empty(q)
        and _last_stride(q, ignore_single=True)
    )


def _flash_backward(q: AttentionQuery, target: Target) -> bool:
    small = target.backend == "cuda" and target.capability in ((8, 6), (8, 7), (8, 9), (12, 0), (12, 1))
    head = q.query.size(-1)
    return not (small and q.training) or head <= 192 or (not q.dropout and head > 224)


def _efficient(q: AttentionQuery, target: Target) -> bool:
    dtypes = (*_HALVES, torch.float32) if target.capability >= (8, 0) else (torch.float16, torch.float32)
    alignment = 8 if q.query.dtype in _HALVES else 4
    head, narrow = q.query.size(-1), q.value.size(-1)
    return bool(
        torch.backends.cuda.mem_efficient_sdp_enabled()
        and _four_dimensional(q)
        and head == q.key.size(-1)
        and head > 0
        and head % alignment == 0
        and narrow > 0
        and narrow % alignment == 0
        and _not_empty(q)
        and _last_stride(q, ignore_single=False)
        and _heads(q, gqa=False, same_kv=True)
        and _dtype(q, dtypes)
    )


def _math(_: AttentionQuery, __: Target) -> bool:
    return bool(torch.backends.cuda.math_sdp_enabled())


_CAN: dict[SDPBackend, Callable[[AttentionQuery, Target], bool]] = {
    SDPBackend.CUDNN_ATTENTION: _cudnn,
    SDPBackend.FLASH_ATTENTION: _flash,
    SDPBackend.EFFICIENT_ATTENTION: _efficient,
    SDPBackend.MATH: _math,
}


def _four_dimensional(q: AttentionQuery) -> bool:
    return all(t.dim() == 4 for t in q.qkv)


def _dtype(q: AttentionQuery, allowed: tuple[torch.dtype, ...]) -> bool:
    return q.query.dtype in allowed and q.query.dtype == q.key.dtype == q.value.dtype


def _not_empty(q: AttentionQuery) -> bool:
    return bool(q.query.size(-2) != 0 and q.key.size(-2) != 0)


def _last_stride(q: AttentionQuery, *, ignore_single: bool) -> bool:
    contiguous = all(t.stride(-1) == 1 for t in q.qkv) or (ignore_single and q.query.size(-1) == 1)
    return bool(contiguous and (q.mask is None or q.mask.stride(-1) == 1))


def _heads(q: AttentionQuery, *, gqa: bool, same_kv: bool) -> bool:
    if not q.query.size(0) == q.key.size(0) == q.value.size(0):
        return False
    queries, keys, values = (t.size(-3) for t in q.qkv)
    if q.gqa and gqa:
        return bool((keys == values or not same_kv) and queries % keys == 0 and (same_kv or queries % values == 0))
    return bool(queries == keys == values)
