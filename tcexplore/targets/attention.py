"""`scaled_dot_product_attention` for a target: which kernel torch 2.11 picks there, and the call of that kernel.

torch picks in C++, from the device: `select_sdp_backend` and its checks in
`aten/src/ATen/native/transformers/cuda/sdp_utils.cpp` and `sdp_utils_cpp.h`. This module repeats those rules for dense
inputs and an absent device; the tests compare them with choices recorded on a real one. The calls prepare their inputs
as `aten/src/ATen/native/transformers/attention.cpp` does: boolean masks become additive, sizes are padded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention import SDPBackend

from tcexplore.targets.device_table import Target

_HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True)
class AttentionQuery:
    """The arguments that determine the choice."""

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


def choose_backend(q: AttentionQuery, target: Target) -> SDPBackend:
    """Return the backend that torch picks on `target`. Raises `RuntimeError` if no enabled one accepts the inputs."""
    for backend in _order(target):
        if _ACCEPTS[backend](q, target):
            return backend
    raise RuntimeError("no enabled attention kernel can run these inputs on the target")


def _order(target: Target) -> Iterator[SDPBackend]:
    numbers = [int(n) for n in torch._C._get_sdp_priority_order()]
    order = [b for n in numbers for b in _ACCEPTS if b.value == n]
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


_ACCEPTS: dict[SDPBackend, Callable[[AttentionQuery, Target], bool]] = {
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


def attention_for(target: Target, on_choice: Callable[[str], None] = lambda _: None) -> Callable[..., torch.Tensor]:
    """Return a replacement for `scaled_dot_product_attention` in a graph lowered for `target`.

    It calls `on_choice` with the name of each call's backend.
    """

    def scaled_dot_product_attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        q = AttentionQuery(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
        backend = choose_backend(q, target)
        on_choice(backend.name)
        output: torch.Tensor = _CALL[backend](q, scale)
        return output

    return scaled_dot_product_attention


def _additive(q: AttentionQuery, masked: float = -math.inf) -> torch.Tensor | None:
    """Return the mask that torch adds to the scores."""
    if q.mask is None or q.mask.dtype != torch.bool:
        return q.mask
    low = torch.scalar_tensor(masked, dtype=q.query.dtype, device=q.mask.device)
    return torch.where(q.mask, 0.0, low)


# torch 2.11 passes this to cuDNN, which once rejected -inf; later releases pass -inf (pull request 177868).
_CUDNN_MASKED = -65504.0 if torch.__version__ < (2, 12) else -math.inf


def _call_cudnn(q: AttentionQuery, scale: float | None) -> Any:
    out = torch.ops.aten._scaled_dot_product_cudnn_attention(
        *q.qkv, _additive(q, _CUDNN_MASKED), q.training, q.dropout, q.causal, False, scale=scale
    )
    return out[0]


def _call_flash(q: AttentionQuery, scale: float | None) -> Any:
    size = q.query.size(-1)
    query, key, value = (_padded(t, 8) for t in q.qkv)
    scale = 1.0 / math.sqrt(size) if scale is None else scale
    out = torch.ops.aten._scaled_dot_product_flash_attention(
        query, key, value, q.dropout, q.causal, False, scale=scale
    )[0]
    return out if out.size(-1) == size else out[..., :size]


def _call_efficient(q: AttentionQuery, scale: float | None) -> Any:
    mask = _additive(q)
    if mask is not None:
        if mask.stride(-1) != 1 or any(stride % 8 for stride in mask.stride()[:-1]):
            size = mask.size(-1)
            mask = torch.nn.functional.pad(mask, (0, 8 - size % 8))[..., :size]
        mask = mask.expand(q.query.size(0), q.query.size(1), q.query.size(2), q.key.size(2))
    out = torch.ops.aten._scaled_dot_product_efficient_attention(
        *q.qkv, mask, q.training, q.dropout, q.causal, scale=scale
    )
    return out[0]


def _call_math(q: AttentionQuery, scale: float | None) -> Any:
    return torch.ops.aten._scaled_dot_product_attention_math(
        *q.qkv, _additive(q), q.dropout, q.causal, None, scale=scale, enable_gqa=q.gqa
    )[0]


def _padded(tensor: torch.Tensor, multiple: int) -> torch.Tensor:
    rest = tensor.size(-1) % multiple
    return tensor if rest == 0 else torch.nn.functional.pad(tensor, (0, multiple - rest))


_CALL: dict[SDPBackend, Callable[[AttentionQuery, float | None], Any]] = {
    SDPBackend.CUDNN_ATTENTION: _call_cudnn,
    SDPBackend.FLASH_ATTENTION: _call_flash,
    SDPBackend.EFFICIENT_ATTENTION: _call_efficient,
    SDPBackend.MATH: _call_math,
}
