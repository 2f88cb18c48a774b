"""Eager calls with other roundings: what a result may differ by without an error in anything."""

from __future__ import annotations

from typing import Any

import torch
from torch._decomp import get_decompositions
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tcexplore.accuracy.observation import storage_of

FLOATS = (torch.float32, torch.float16, torch.bfloat16)

UNCHANGED = ("aten._to_copy", "aten.detach", "aten.clone", "aten.alias", "aten.lift_fresh")
"""Ops that compute nothing."""

_NORMS = (
    "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update", "cudnn_batch_norm",
    "native_layer_norm", "native_group_norm", "_fused_rms_norm",
)  # fmt: skip
_BACKWARDS = (
    "native_batch_norm_backward", "batch_norm_backward", "cudnn_batch_norm_backward", "native_layer_norm_backward",
    "native_group_norm_backward", "_fused_rms_norm_backward",
)  # fmt: skip


class RoundedOps(TorchDispatchMode):  # type: ignore[misc]
    """Changes each floating-point result of an op as another order of its arithmetic would.

    Most results change by up to one rounding of each element. Sums, means and variances change by up to the error of
    adding one term after the other: code that Inductor generates may do so, torch's own code does not. Norms are made
    as separate ops for it. The changes depend on the seed only; the program's random numbers stay as they are.
    """

    supports_higher_order_operators = True

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}
        aten = torch.ops.aten
        self._in_parts = get_decompositions(
            [getattr(aten, name) for name in (*_NORMS, *_BACKWARDS) if hasattr(aten, name)]
        )

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        if func in self._in_parts:
            with self:
                return self._in_parts[func](*args, **options)
        result = func(*args, **options)
        name = str(getattr(func, "overloadpacket", func))
        if name in UNCHANGED or getattr(func, "is_view", True):
            return result
        given = {storage_of(leaf) for leaf in tree_leaves((args, options)) if isinstance(leaf, torch.Tensor)}
        leaves = [leaf for leaf in tree_leaves(result) if type(leaf) is torch.Tensor and leaf.dtype in FLOATS]
        for place, leaf in enumerate(leaves):
            if leaf.layout is torch.strided and (func._schema.is_mutable or storage_of(leaf) not in given):
                error = leaf if place else _error_of_sum(name, args, options, leaf)
                changed = leaf + (error * self._noise(leaf)).to(leaf.dtype)
                # The -inf of a mask has no rounding, nor has its least finite value, which no score changes.
                rounds = changed.isfinite() & (leaf.abs() < torch.finfo(leaf.dtype).max)
                leaf.copy_(torch.where(rounds, changed, leaf))
        return result

    def _noise(self, value: torch.Tensor) -> torch.Tensor:
        """Return random numbers of up to one rounding for the elements of a value."""
        generator = self._generators.get(value.device)
        if generator is None:
            generator = self._generators[value.device] = torch.Generator(value.device).manual_seed(self._seed)
        noise = torch.rand(value.shape, generator=generator, device=value.device, dtype=torch.float32)
        return noise.sub_(0.5).mul_(2 * torch.finfo(value.dtype).eps)


def _error_of_sum(name: str, args: tuple[Any, ...], options: dict[str, Any], result: torch.Tensor) -> torch.Tensor:
    """Return the error of a sum, in roundings, if its terms are added one after the other; else the result itself."""
    terms = args[0] if args and isinstance(args[0], torch.Tensor) else None
    if name not in ("aten.sum", "aten.mean", "aten.var", "aten.var_mean") or terms is None or terms.dtype not in FLOATS:
        return result
    dims = options.get("dim", args[1] if len(args) > 1 else None)
    dims = [dims] if isinstance(dims, int) else list(dims or range(terms.dim()))
    if not terms.dim() or not terms.numel():
        return result
    terms = terms.float()
    if name in ("aten.var", "aten.var_mean"):
        terms = (terms - terms.mean(dims, keepdim=True)).square()
    added = terms.movedim(dims, list(range(-len(dims), 0))).flatten(-len(dims)).cumsum(-1)
    # Each addition has an error of up to half a rounding of the sum so far; errors add up as random numbers do.
    error = added.square().sum(-1).sqrt() / 2
    return (error if name == "aten.sum" else error / added.shape[-1]).reshape(result.shape)
