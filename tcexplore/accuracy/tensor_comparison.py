"""How far two tensors are apart, and what that says."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import torch

from tcexplore.capture.fx.tensor_descriptions import dtype_text
from tcexplore.events import AccuracyVerdict, Deviation

FACTOR = 4.0
"""Compiled may be this many times as far from float64 as eager before it is called less accurate: summing in another
order moves the error by about that much in either direction."""

ULPS = 16
"""And this many roundings of its dtype, so that an eager result that happens to be exact makes no other one bad."""

IDENTICAL: Final = "identical"
AS_ACCURATE: Final = "as accurate as eager"
CLOSE: Final = "close to eager"
LESS_ACCURATE: Final = "less accurate than eager"
NOT_CLOSE: Final = "not close to eager"
WRONG: Final = "wrong"


class Value(NamedTuple):
    """One value as each side computed it, tensors of one shape and dtype; `exact` is its float64 value or None.

    `scale` is the largest root mean square among the values of its kind. What has lost more than half of its digits
    beside it, such as a gradient that is zero but for rounding, is judged by what is left of it.
    """

    name: str
    eager: torch.Tensor
    compiled: torch.Tensor
    exact: torch.Tensor | None = None
    scale: float = 0.0


class _Errors(NamedTuple):
    eager: float | None
    compiled: float | None


UNKNOWN = _Errors(None, None)


def judge(value: Value) -> Deviation:
    """The judgement on one value. Wrong is what is off by more than half of the digits that the dtype has, beyond what
    eager itself is off by."""
    if value.eager.is_complex():
        exact = None if value.exact is None else _parts(value.exact)
        return judge(value._replace(eager=_parts(value.eager), compiled=_parts(value.compiled), exact=exact))
    if not value.eager.is_floating_point():
        return _discrete(value)
    errors = _errors(value)
    a, b = _wide(value.eager), _wide(value.compiled)
    if torch.equal(a, b):
        return _deviation(value, IDENTICAL, 0.0, 0.0, errors)
    if not all(torch.equal(kind(a), kind(b)) for kind in (torch.isnan, torch.isposinf, torch.isneginf)):
        return _deviation(value, WRONG, None, None, errors)
    finite = torch.isfinite(a)
    apart = _largest((a - b)[finite])
    largest = max(_largest(a[finite]), value.scale * math.sqrt(torch.finfo(value.eager.dtype).eps))
    verdict = _beside_exact(value, errors) if None not in errors else _without_exact(value)
    return _deviation(value, verdict, apart, apart / largest if largest else None, errors)


def rms(values: torch.Tensor) -> float:
    """The root mean square of the finite values; 0 for none."""
    wide = _wide(values)
    finite = wide[torch.isfinite(wide)]
    return float(finite.square().mean().sqrt()) if finite.numel() else 0.0


def _beside_exact(value: Value, errors: _Errors) -> AccuracyVerdict:
    eps = torch.finfo(value.eager.dtype).eps
    allowed, error = FACTOR * (errors.eager or 0.0), errors.compiled or 0.0
    if error <= allowed + ULPS * eps:
        return AS_ACCURATE
    return LESS_ACCURATE if error <= allowed + math.sqrt(eps) else WRONG


def _without_exact(value: Value) -> AccuracyVerdict:
    try:
        torch.testing.assert_close(value.compiled, value.eager, equal_nan=True, check_stride=False)
    except AssertionError:
        error = _relative(value.compiled, _wide(value.eager), value.scale)
        return NOT_CLOSE if error is not None and error <= math.sqrt(torch.finfo(value.eager.dtype).eps) else WRONG
    return CLOSE


def _discrete(value: Value) -> Deviation:
    """Whole numbers and truth values are the same or they are not."""
    apart = _largest(_wide(value.eager) - _wide(value.compiled))
    largest = _largest(_wide(value.eager))
    return _deviation(value, WRONG if apart else IDENTICAL, apart, apart / largest if largest else None)


def _errors(value: Value) -> _Errors:
    if value.exact is None:
        return UNKNOWN
    return _Errors(*(_relative(side, value.exact, value.scale) for side in (value.eager, value.compiled)))


def _relative(found: torch.Tensor, exact: torch.Tensor, scale: float) -> float | None:
    """The root mean square of the error over that of the exact values; None where all of those are zero."""
    own = max(rms(exact), scale * math.sqrt(torch.finfo(found.dtype).eps))
    error = rms(_wide(found) - exact)
    return error / own if own else (0.0 if not error else None)


def _largest(values: torch.Tensor) -> float:
    return float(values.abs().max()) if values.numel() else 0.0


def _parts(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj())


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64)


def _deviation(
    value: Value, verdict: AccuracyVerdict, apart: float | None, rel: float | None, errors: _Errors = UNKNOWN
) -> Deviation:
    return Deviation(
        name=value.name,
        dtype=dtype_text(value.eager.dtype),
        elements=value.eager.numel(),
        verdict=verdict,
        max_abs=apart,
        max_rel=rel,
        eager_vs_fp64=errors.eager,
        compiled_vs_fp64=errors.compiled,
    )
