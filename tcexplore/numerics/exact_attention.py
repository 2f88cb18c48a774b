"""Fused attention in float64 or float32, which its kernels for a GPU do not run in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

LOGSUMEXP_ROWS = 32
"""The memory-efficient kernel pads the rows of its logsumexp to a multiple of this."""

_PREFIX, _BACKWARD = "aten._scaled_dot_product_", "_attention_backward"

_STATES = {"flash": 7, "efficient": 2, "cudnn": 7}
"""Results of a forward after the first two: states of random numbers, and lengths."""

FUSED_ATTENTION = frozenset(f"{_PREFIX}{kind}_attention{end}" for kind in _STATES for end in ("", "_backward"))
"""The ops that `run_attention` computes."""


def run_attention(name: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the results of an op of fused attention, with None in place of states."""
    arguments = target._schema.arguments
    defaults = {one.name: one.default_value for one in arguments if one.has_default_value()}
    given = {**defaults, **dict(zip((one.name for one in arguments), args, strict=False)), **kwargs}
    kind = name.removeprefix(_PREFIX).partition("_")[0]
    inputs = [given["query"], given["key"], given["value"], given.get("attn_bias")]
    causal, scale = given["is_causal"], given["scale"]
    if name.endswith(_BACKWARD):
        gradients = _gradients(given[arguments[0].name], inputs, causal, scale)
        wanted = given.get("grad_input_mask", (True, True, True))
        return tuple(gradient if want else None for gradient, want in zip(gradients, wanted, strict=False))
    out, logsumexp = _attention(inputs, causal, scale)
    if kind == "efficient":
        rows = logsumexp.shape[-1]
        logsumexp = torch.nn.functional.pad(logsumexp, (0, -rows % LOGSUMEXP_ROWS), value=math.inf)
    elif kind == "cudnn":
        logsumexp = logsumexp.unsqueeze(-1)
    stored = logsumexp if given.get("compute_log_sumexp", True) else None
    return out, stored, *([None] * _STATES[kind])


def _attention(inputs: Sequence[Any], causal: bool, scale: float | None) -> tuple[Tensor, Tensor]:
    """Return the result and the logsumexp of the scores."""
    query, key, value, bias = inputs
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if causal:
        above = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(above, -math.inf)
    return torch.softmax(scores, -1) @ value, scores.logsumexp(-1)


def _gradients(gradient: Tensor, inputs: Sequence[Any], causal: bool, scale: float | None) -> list[Tensor | None]:
    with torch.enable_grad():
        inputs = [one if one is None else one.detach().requires_grad_() for one in inputs]
        out, _ = _attention(inputs, causal, scale)
        given = [one for one in inputs if one is not None]
        gradients = iter(torch.autograd.grad(out, given, gradient))
    return [None if one is None else next(gradients) for one in inputs]
