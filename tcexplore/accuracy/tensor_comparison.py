"""Comparison of two tensors: deviation and verdict."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import torch

from tcexplore.capture.tensor_descriptions import dtype_text
from tcexplore.events import AccuracyVerdict, Deviation

MAX_ERROR_RATIO = 4.0
"""Ratio of errors against float64 above which compiled is less accurate than eager.

A different order of summation changes the error by about this factor in either direction.
"""

ALLOWED_ROUNDINGS = 16
"""Allowed error in units of the dtype's rounding, in case the eager result happens to be exact."""

IDENTICAL: Final = "identical"
AS_ACCURATE: Final = "as accurate as eager"
CLOSE: Final = "close to eager"
LESS_ACCURATE: Final = "less accurate than eager"
NOT_CLOSE: Final = "not close to eager"
WRONG: Final = "wrong"


class ComparedValue(NamedTuple):
    """One value as computed by both sides, as tensors of the same shape and dtype."""

    name: str
    eager: torch.Tensor
    compiled: torch.Tensor
    exact: torch.Tensor | None = None
    """The float64 value."""
    scale: float = 0.0
    """The largest root mean square among values of this kind.

    Relative errors of much smaller values are relative to this times the square root of the machine epsilon. Those of a
    value that is zero except for rounding, such as the gradient of a bias before a batch norm, are relative to this.
    """
    precision: torch.dtype | None = None
    """The dtype that the tolerance is for; None for that of the values."""
    rounded: tuple[torch.Tensor, ...] = ()
    """The values of eager runs with other roundings; empty for none."""

    @property
    def least_magnitude(self) -> float:
        """What relative errors are relative to at least."""
        zero = self.exact is not None and rms(self.exact) < self.scale * math.sqrt(torch.finfo(torch.float64).eps)
        return self.scale * (1.0 if zero else math.sqrt(torch.finfo(self.eager.dtype).eps))

    @property
    def eps(self) -> float:
        """The machine epsilon of the precision of a floating-point value."""
        return float(torch.finfo(self.precision or self.eager.dtype).eps)


class _Errors(NamedTuple):
    eager: float | None
    compiled: float | None
    rounded: float | None = None
    """The largest of the eager runs with other roundings."""
    allowed: float | None = None
    """The most that is as accurate as eager."""


UNKNOWN = _Errors(None, None)


def compare_value(value: ComparedValue) -> Deviation:
    """Return the deviation of one value.

    It is wrong if its error exceeds eager's, also with other roundings, by more than half of the dtype's digits.
    """
    if value.eager.is_complex():
        exact = None if value.exact is None else _parts(value.exact)
        parts = value._replace(eager=_parts(value.eager), compiled=_parts(value.compiled), exact=exact)
        return compare_value(parts._replace(rounded=tuple(map(_parts, value.rounded))))
    if not value.eager.is_floating_point():
        return _discrete(value)
    errors = _errors(value)
    a, b = _wide(value.eager), _wide(value.compiled)
    if not all(torch.equal(kind(a), kind(b)) for kind in (torch.isnan, torch.isposinf, torch.isneginf)):
        return _deviation(value, WRONG, None, None, errors)
    finite = torch.isfinite(a)
    if torch.equal(a[finite], b[finite]):  # a NaN is not equal to itself
        return _deviation(value, IDENTICAL, 0.0, 0.0, errors)
    max_abs = _largest((a - b)[finite])
    largest = max(_largest(a[finite]), value.least_magnitude)
    if None in errors[:2]:
        errors = errors._replace(rounded=_largest_error(value.rounded, a, value.least_magnitude))
        verdict = _verdict_by_eager(value, errors.rounded)
    else:
        verdict, errors = _verdict_by_errors(value, errors)
    return _deviation(value, verdict, max_abs, max_abs / largest if largest else None, errors)


def rms(values: torch.Tensor) -> float:
    """Return the root mean square of the finite values, or 0 if there are none."""
    wide = _wide(values)
    finite = wide[torch.isfinite(wide)]
    return float(finite.square().mean().sqrt()) if finite.numel() else 0.0


def _verdict_by_errors(value: ComparedValue, errors: _Errors) -> tuple[AccuracyVerdict, _Errors]:
    """Return the verdict, and the errors with the one that is allowed."""
    eps = value.eps
    explained, error = MAX_ERROR_RATIO * max(errors.eager or 0.0, errors.rounded or 0.0), errors.compiled or 0.0
    allowed = explained + ALLOWED_ROUNDINGS * eps
    verdict: AccuracyVerdict = AS_ACCURATE
    if error > allowed:
        verdict = LESS_ACCURATE if error <= explained + _wrong_above(eps) else WRONG
    return verdict, errors._replace(allowed=allowed)


def _wrong_above(eps: float) -> float:
    """Return the relative error that no rounding explains: half of the digits of a type with this `eps`."""
    return math.sqrt(eps)


def _verdict_by_eager(value: ComparedValue, rounded: float | None) -> AccuracyVerdict:
    try:
        compiled, eager = (side.to(value.precision or side.dtype) for side in (value.compiled, value.eager))
        torch.testing.assert_close(compiled, eager, equal_nan=True, check_stride=False)
    except AssertionError:
        error = _relative(value.compiled, _wide(value.eager), value.least_magnitude)
        if error is not None and rounded is not None and error <= MAX_ERROR_RATIO * rounded:
            return CLOSE
        return NOT_CLOSE if error is not None and error <= _wrong_above(value.eps) else WRONG
    return CLOSE


def _discrete(value: ComparedValue) -> Deviation:
    """Compare integers and booleans, which must be equal, unless other roundings change as many of them."""
    max_abs = _largest(_wide(value.eager) - _wide(value.compiled))
    largest = _largest(_wide(value.eager))
    different, *rounded = (int((value.eager != side).sum()) for side in (value.compiled, *value.rounded))
    verdict: AccuracyVerdict = AS_ACCURATE if different <= MAX_ERROR_RATIO * max(rounded, default=0) else WRONG
    return _deviation(value, verdict if different else IDENTICAL, max_abs, max_abs / largest if largest else None)


def _errors(value: ComparedValue) -> _Errors:
    if value.exact is None:
        return UNKNOWN
    exact, least = value.exact, value.least_magnitude
    eager, compiled = (_relative(side, exact, least) for side in (value.eager, value.compiled))
    return _Errors(eager, compiled, _largest_error(value.rounded, exact, least))


def _largest_error(sides: tuple[torch.Tensor, ...], exact: torch.Tensor, least: float) -> float | None:
    errors = (_relative(side, exact, least) for side in sides)
    return max((error for error in errors if error is not None), default=None)


def _relative(value: torch.Tensor, exact: torch.Tensor, least_magnitude: float) -> float | None:
    """Return the RMS of the error over that of the exact values; None if all of those are zero."""
    magnitude = max(rms(exact), least_magnitude)
    error = rms(_wide(value) - exact)
    return error / magnitude if magnitude else (0.0 if not error else None)


def _largest(values: torch.Tensor) -> float:
    return float(values.abs().max()) if values.numel() else 0.0


def _parts(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj())


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64)


def _deviation(
    value: ComparedValue,
    verdict: AccuracyVerdict,
    max_abs: float | None,
    max_rel: float | None,
    errors: _Errors = UNKNOWN,
) -> Deviation:
    return Deviation(
        name=value.name,
        dtype=dtype_text(value.eager.dtype),
        elements=value.eager.numel(),
        verdict=verdict,
        max_abs=max_abs,
        max_rel=max_rel,
        eager_vs_fp64=errors.eager,
        compiled_vs_fp64=errors.compiled,
        rounded_error=errors.rounded,
        allowed_error=errors.allowed,
    )
