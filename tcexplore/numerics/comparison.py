"""Comparison of one output of a kernel with its replay."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from tcexplore.numerics.replayed_values import Value, smallest, widened

MARGIN = 4.0
"""Factor of eager's own share of the bound, where the bound is too small for these ops in eager already."""


class Comparison(NamedTuple):
    """How an output compares with its replay; shares and ulps are None for integers and booleans."""

    wrong: bool
    elements: int
    differing: int
    share: float | None = None
    eager_share: float | None = None
    ulps: float | None = None
    """Largest difference from eager, in units in the last place of the largest value; so are the next two."""
    error_ulps: float | None = None
    eager_error_ulps: float | None = None
    error: float | None = None
    """Largest error against float64, relative to the largest value."""
    eager_error: float | None = None
    worst: int = 0
    """Index of the worst element in the flat tensor."""
    not_finite: bool = False
    """Whether it is wrong because it is not finite where it should be, or the other way round."""

    @property
    def severity(self) -> tuple[bool, float, int]:
        return self.wrong, self.share or 0.0, self.differing


def compare(real: torch.Tensor, value: Value) -> Comparison:
    """Compare the real value of a node with its replay."""
    eager, exact = value.eager, value.exact
    differing = int((~_same_bits(real, eager)).sum())
    if not real.is_floating_point():
        return _discrete(real, value, differing)
    wide, single = widened(real), widened(value.single)
    bound = value.bound if isinstance(value.bound, torch.Tensor) else torch.zeros_like(exact)
    bound = bound + _last_digit(exact, real.dtype)
    error = (wide - exact).abs()
    largest = float(torch.finfo(real.dtype).max)
    decided = torch.isfinite(exact) & torch.isfinite(bound) & (exact.abs() + bound < largest)
    share = torch.where(decided, error / bound, 0.0)
    lost = decided & ~torch.isfinite(wide) & torch.isfinite(eager)
    share = torch.where(lost, math.inf, torch.nan_to_num(share, nan=0.0, posinf=math.inf))
    eager_share = torch.where(decided, (single - exact).abs() / bound, 0.0)
    of_eager = _max(torch.nan_to_num(eager_share, nan=0.0, posinf=0.0))
    of_compiled = _max(share)
    # A value that sums to nearly 0 has no correct digit, in eager neither: what counts is the size of the others.
    scale = torch.where(decided, exact.abs(), 0.0).max() if exact.numel() else exact.new_zeros(())
    scale = scale.clamp_min(smallest(real.dtype))
    ulp = _ulp(scale, real.dtype)
    finite = decided & torch.isfinite(wide)
    eager_wide = widened(eager)
    both = torch.isfinite(wide) & torch.isfinite(eager_wide)
    return Comparison(
        wrong=of_compiled > max(1.0, MARGIN * of_eager),
        elements=real.numel(),
        differing=differing,
        share=of_compiled,
        eager_share=of_eager,
        ulps=_max(torch.where(both, (wide - eager_wide).abs() / ulp, 0.0)),
        error_ulps=_max(torch.where(finite, error / ulp, 0.0)),
        eager_error_ulps=_max(torch.where(finite & both, (eager_wide - exact).abs() / ulp, 0.0)),
        error=_max(torch.where(finite, error / scale, 0.0)),
        eager_error=_max(torch.where(finite & both, (eager_wide - exact).abs() / scale, 0.0)),
        worst=int(share.argmax()) if share.numel() else 0,
        not_finite=bool(lost.any()),
    )


def _discrete(real: torch.Tensor, value: Value, differing: int) -> Comparison:
    undecided = value.bound if isinstance(value.bound, torch.Tensor) else torch.zeros_like(real, dtype=torch.bool)
    exact, eager = value.exact, value.eager
    if exact.dtype != real.dtype:
        exact = eager
    # Eager's own rounding decides as well as that of float64.
    wrong = (real != exact) & (real != eager) & ~undecided.to(torch.bool)
    return Comparison(
        wrong=bool(wrong.any()), elements=real.numel(), differing=differing,
        worst=int(wrong.flatten().to(torch.uint8).argmax()) if real.numel() else 0,
    )  # fmt: skip


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return where two tensors have the same value; a value that is not a number equals another one."""
    if a.dtype != b.dtype:
        return torch.zeros_like(a, dtype=torch.bool)
    same = a == b
    if not a.is_floating_point() or bool(same.all()):
        return same
    return same | (a.isnan() & b.isnan())


def count_differing(a: torch.Tensor, b: torch.Tensor) -> int:
    """Return the number of elements that differ; all of them if the dtype or the shape does."""
    return int((~_same_bits(a, b)).sum()) if a.shape == b.shape else a.numel()


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors have the same dtype, shape and values."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(a, b) or bool(_same_bits(a, b).all())


def _last_digit(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a hundredth of a unit in the last place: float64 itself rounds, and ends of intervals are open."""
    return 0.01 * _ulp(exact, dtype) + smallest(dtype)


def _ulp(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the unit in the last place at each value."""
    info = torch.finfo(dtype)
    _, exponent = torch.frexp(exact.abs().clamp(float(info.tiny), float(info.max)))
    return torch.ldexp(torch.full_like(exact, float(info.eps)), exponent - 1)


def _max(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0
