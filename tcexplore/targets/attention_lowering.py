"""`scaled_dot_product_attention` for a target: the call of the kernel that torch's C++ would make there.

As `aten/src/ATen/native/transformers/attention.cpp` prepares each: masks of booleans made additive, sizes padded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import SDPBackend

from tcexplore.targets.attention_choice import AttentionQuery, choose
from tcexplore.targets.device_table import Target


def attention(target: Target, chosen: Callable[[str], None] = lambda _: None) -> Callable[..., torch.Tensor]:
    """A function to stand for `scaled_dot_product_attention` in a graph lowered for `target`.

    `chosen` is told the name of the backend of each call.
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
        question = AttentionQuery(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
        backend = choose(question, target)
        chosen(backend.name)
        result: torch.Tensor = _CALL[backend](question, scale)
        return result

    return scaled_dot_product_attention


def _additive(q: AttentionQuery, masked: float = -math.inf) -> torch.Tensor | None:
    """A mask of booleans as torch adds it to the scores."""
    if q.mask is None or q.mask.dtype != torch.bool:
        return q.mask
    dropped = torch.scalar_tensor(masked, dtype=q.query.dtype, device=q.mask.device)
    return torch.where(q.mask, 0.0, dropped)


# cuDNN could not take -inf; torch 2.11 still gives it this, the releases after it do not (pull request 177868).
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
