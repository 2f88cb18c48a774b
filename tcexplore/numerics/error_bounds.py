"""Rounding errors that an op may make, and how it passes on those of its inputs.

A value is replayed three times: in the dtype of the run, in float64, and as a bound of the difference that any correct
implementation may have from the float64 value. The bound follows from two facts of IEEE arithmetic:

- A basic operation (add, multiply, divide, convert) is off by at most half a unit in the last place, `u` times the
  result. A transcendental function of a vector or GPU library is off by a few.
- A sum of n terms, in any order, is off by at most (n - 1) u times the sum of the absolute terms. Rounding errors are
  mostly independent, so `ORDER` times the square root of n suffices (Higham and Mary, 2019), except where they all have
  the same sign, as for equal terms. That is measured: by the plain sum from the first term to the last.

A bound passes through a pointwise op by its values at the ends of the interval. So a comparison, a rounding or a branch
is undecided where its input is closer to the threshold than its bound, and then proves nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from tcexplore.numerics.replayed_values import Value, all_finite, op_name, run_exactly, unit, widened

ORDER = 6.0
"""Factor of the square root of n for a sum of n terms: it is exceeded with a probability of 1e-7."""

ORDER_WITNESS = 2.0
"""Factor of the error of the plain sum from the first term to the last."""

FUNCTION_ULPS = 8.0
"""Half units in the last place of functions such as exp: vector libraries promise 1 to 4 units."""

QUOTIENT_ULPS = {"cpu": 2.0, "cuda": 5.0}
"""Half units in the last place of a quotient: the division of Triton is off by up to 2 units."""

TF32 = 2.0**-10
"""Largest relative error of a factor of a matrix product in TF32, which cuts digits off."""

ERF_ABSOLUTE = 5e-7
"""Absolute error of a vectorized erf (Abramowitz and Stegun 7.1.26, and the rounding of its terms)."""

OPAQUE = 8.0
"""Factor of eager's own largest error for an op without a rule."""

MOST_COMBINED = 3
"""Inputs with bounds whose ends are combined; the bounds of more are added."""

WITNESS_ELEMENTS = 1 << 22
"""Elements up to which the plain sum is measured."""

# ---- rules


@dataclass(slots=True)
class OpCall:
    """One op with the values of its arguments."""

    target: Any
    args: Any
    """Arguments with `Value`s in place of nodes."""
    kwargs: Any
    exact: Any
    """Its result in float64."""
    eager: Any
    roundoff: float
    """Half a unit in the last place of the arithmetic, relative."""
    stored: float
    """The same of the dtype that the result is stored in."""

    @property
    def values(self) -> list[Value]:
        """The arguments that are values."""
        return [leaf for leaf in self._leaves if isinstance(leaf, Value)]

    @property
    def _leaves(self) -> Sequence[Any]:
        leaves: list[Any] = tree_leaves((self.args, self.kwargs))
        return leaves

    def with_exact(self, replace: Callable[[Value], Any]) -> Any:
        """Call the op in float64 with other values of its arguments."""
        args, kwargs = tree_map(
            lambda leaf: replace(leaf) if isinstance(leaf, Value) else leaf, (self.args, self.kwargs)
        )
        return run_exactly(self.target, args, kwargs)

    @property
    def inexact(self) -> list[Value]:
        """The arguments that have a bound."""
        return [value for value in self.values if isinstance(value.bound, Tensor)]

    @property
    def scalars(self) -> float:
        """The largest number among the arguments, which the dtype of the run rounds."""
        numbers = [abs(leaf) for leaf in self._leaves if type(leaf) is float and math.isfinite(leaf)]
        return max(numbers, default=0.0)


def dense(value: Value) -> Tensor:
    """Return the bound of a value as a tensor, zero for an exact one."""
    if isinstance(value.bound, Tensor):
        return value.bound
    exact = value.exact
    zeros: Tensor = torch.zeros_like(exact, dtype=torch.float64 if exact.is_floating_point() else torch.bool)
    return zeros


def _is_float(value: Value) -> bool:
    return isinstance(value.exact, Tensor) and value.exact.is_floating_point()


def _is_smooth(op: OpCall) -> bool:
    """Return whether the result and all inputs with bounds are floating-point."""
    return bool(op.exact.is_floating_point()) and all(map(_is_float, op.inexact))


def _moved(op: OpCall) -> Any:
    """Bound of an op that only moves values: it moves their bounds alike."""
    if not op.inexact:
        return None
    if any(value.bound.dtype is torch.bool and value.eager.dtype is not torch.bool for value in op.inexact):
        return _unknown(op)

    def of_bound(value: Value) -> Any:
        if not isinstance(value.exact, Tensor):
            return value.exact
        if not value.exact.is_floating_point() and value.bound is None and value.exact.dtype is not torch.bool:
            return value.exact  # an index
        return dense(value)

    args, kwargs = tree_map(
        lambda leaf: of_bound(leaf) if isinstance(leaf, Value) else 0.0 if type(leaf) is float else leaf,
        (op.args, op.kwargs),
    )  # fmt: skip
    if op_name(op.target).endswith("pad_nd") and len(args) > 2:
        args = (*args[:2], 0, *args[3:])
    return run_exactly(op.target, args, kwargs)


def _unknown(op: OpCall) -> Any:
    return tree_map(lambda leaf: torch.full_like(leaf, math.inf, dtype=torch.float64), op.exact)


def _added(op: OpCall) -> Any:
    if not _is_smooth(op):
        return _basic(op)
    a, b = op.args[0], op.args[1]
    alpha = abs(float(op.kwargs.get("alpha", 1)))
    constant = op.scalars * op.roundoff
    return _sum_of(a) + alpha * _sum_of(b) + constant + op.roundoff * op.exact.abs()


def _sum_of(value: Any) -> Any:
    return value.bound if isinstance(value, Value) and isinstance(value.bound, Tensor) else 0.0


def _size_of(value: Any) -> Any:
    exact = value.exact if isinstance(value, Value) else value
    return exact.to(torch.float64).abs() if isinstance(exact, Tensor) else abs(exact)


def _multiplied(op: OpCall) -> Any:
    if not _is_smooth(op):
        return _basic(op)
    a, b = op.args[0], op.args[1]
    left, right = _sum_of(a), _sum_of(b)
    passed = _product(_size_of(a), right) + _product(_size_of(b), left) + _product(left, right)
    return passed + (2 if op.scalars else 1) * op.roundoff * op.exact.abs()


def _product(size: Any, bound: Any) -> Any:
    """Multiply a value by a bound: an unknown value times zero is zero."""
    result = size * bound
    if not isinstance(result, Tensor) or all_finite(result):
        return result
    return torch.nan_to_num(result, nan=0.0, posinf=math.inf)


def _pointwise(op: OpCall, ulps: float = FUNCTION_ULPS) -> Any:
    """Bound of any pointwise op: the largest change at the ends of its inputs' intervals."""
    changes = _changes(op)
    if not op.exact.is_floating_point():
        undecided = torch.zeros_like(op.exact, dtype=torch.bool)
        for change in changes:
            undecided |= change != 0
        return undecided if bool(undecided.any()) else None
    moved = torch.zeros_like(op.exact)
    for change in changes:
        moved = moved + change if len(op.inexact) > MOST_COMBINED else torch.maximum(moved, change)
    for value in op.inexact:
        if not _is_float(value) and value.exact.dtype is not torch.bool:
            moved = torch.where(value.bound, math.inf, moved)
    return moved + ulps * op.roundoff * op.exact.abs()


def _changes(op: OpCall) -> Iterator[Tensor]:
    """Yield how far the result changes at each combination of ends, or at each end of one of many inputs."""
    inexact = op.inexact
    if not inexact:
        return
    ends = list(itertools.product((-1, 1), repeat=len(inexact)))
    if len(inexact) > MOST_COMBINED:
        ends = [tuple(sign * (i == j) for j in range(len(inexact))) for i in range(len(inexact)) for sign in (-1, 1)]
    for signs in ends:
        at = dict(zip(map(id, inexact), signs, strict=True))

        def shifted(value: Value, at: dict[int, int] = at) -> Any:
            return _shifted(value, at.get(id(value), 0))

        result = op.with_exact(shifted)
        if not op.exact.is_floating_point():
            yield (result != op.exact).to(torch.float64)
            continue
        # Equal infinities do not differ, nor do two values that are not numbers.
        same = (result == op.exact) | (result.isnan() & op.exact.isnan())
        yield torch.where(same, 0.0, torch.nan_to_num((result - op.exact).abs(), nan=math.inf))


def _shifted(value: Value, sign: int) -> Any:
    if not sign or not isinstance(value.bound, Tensor):
        return value.exact
    if value.exact.dtype is torch.bool:
        return value.exact ^ value.bound if sign > 0 else value.exact
    if not value.exact.is_floating_point():
        return value.exact
    return value.exact + sign * value.bound


def _basic(op: OpCall) -> Any:
    return _pointwise(op, ulps=2.0)


def _divided(op: OpCall) -> Any:
    return _pointwise(op, ulps=QUOTIENT_ULPS.get(op.exact.device.type, QUOTIENT_ULPS["cpu"]))


def _exponential(op: OpCall) -> Any:
    """Bound of functions that use exp: on a GPU that of Triton multiplies its input by log2(e), and rounds this."""
    bound = _pointwise(op)
    if not op.exact.is_cuda or not _is_smooth(op):
        return bound
    exponent = op.values[0].exact.abs().nan_to_num(posinf=0.0)
    return bound + 2 * exponent * op.roundoff * op.exact.abs()


def _inverse_root(op: OpCall) -> Any:
    return _pointwise(op, ulps=4.0)


def _selected(op: OpCall) -> Any:
    return _pointwise(op, ulps=0.0)


def _converted(op: OpCall) -> Any:
    (value,) = op.values
    if op.exact.is_floating_point() and value.exact.is_floating_point():
        return dense(value) + op.stored * op.exact.abs() if op.stored or value.bound is not None else None
    if op.exact.is_floating_point():
        return _pointwise(op, ulps=1.0)
    return _pointwise(op)


def _terms(op: OpCall) -> int:
    """Return the number of terms of each element of a reduction."""
    shape = op.args[0].exact.shape
    return max(1, math.prod(int(shape[dim]) for dim in _dims(op)))


def _dims(op: OpCall) -> tuple[int, ...]:
    """Return the reduced dimensions."""
    return reduced_dims(op.args[0].exact, op.args[1:2], op.kwargs)


def reduced_dims(tensor: Tensor, args: Sequence[Any], kwargs: Any) -> tuple[int, ...]:
    """Return the dimensions that a reduction of a tensor reduces; `args` are those after the tensor."""
    rank = tensor.dim()
    dims = args[0] if args else kwargs.get("dim")
    if dims is None or dims == [] or isinstance(dims, bool):
        return tuple(range(rank))
    return tuple(dim % rank for dim in ([dims] if isinstance(dims, int) else dims)) if rank else ()


def _order(n: int, op: OpCall) -> float:
    return min(float(n), ORDER * math.sqrt(n)) * op.roundoff


def _summed(op: OpCall) -> Any:
    value, dims, n = op.args[0], _dims(op), _terms(op)
    if not _is_float(value):
        return _undecided(op) if value.bound is not None else None

    def total(tensor: Tensor) -> Tensor:
        return (tensor.sum(dim=dims) if dims else tensor).reshape(op.exact.shape)

    bound = total(dense(value)) + _order(n, op) * total(value.exact.abs())
    bound = bound + ORDER_WITNESS * _plain_sum_error(value.exact, dims, op.roundoff).reshape(op.exact.shape)
    return bound if "mean" not in op_name(op.target) else bound / n + 2 * op.roundoff * op.exact.abs()


def _plain_sum_error(exact: Tensor, dims: tuple[int, ...], roundoff: float) -> Tensor:
    """Return the error of the sum from the first term to the last; zero for tensors too large to measure it."""
    order = [dim for dim in range(exact.dim()) if dim not in dims]
    kept = [exact.shape[dim] for dim in order]
    if not dims or not 0 < exact.numel() <= WITNESS_ELEMENTS:
        return exact.new_zeros(kept)
    rows = exact.permute([*order, *dims]).reshape([*kept, -1])
    narrow = rows if roundoff < unit(torch.float32) else rows.to(torch.float32)
    plain = narrow.cumsum(-1)[..., -1].to(torch.float64)
    # The terms were rounded too, which is no error of the sum.
    return torch.nan_to_num((plain - narrow.to(torch.float64).sum(-1)).abs(), nan=0.0, posinf=0.0)


def _undecided(op: OpCall) -> Any:
    return tree_map(lambda leaf: torch.ones_like(leaf, dtype=torch.bool), op.exact)


def _largest(op: OpCall) -> Any:
    value = op.args[0]
    if value.bound is None:
        return None
    if isinstance(op.exact, tuple | list):  # max and its index
        return [
            torch.full_like(op.exact[0], float(dense(value).max()) if dense(value).numel() else 0.0),
            _undecided_index(op, op.exact[1]),
        ]
    if not op.exact.is_floating_point():
        return _undecided_index(op, op.exact)
    bound, dims = dense(value), _dims(op)
    return torch.amax(bound, dim=dims).reshape(op.exact.shape) if dims else bound


def _undecided_index(op: OpCall, index: Tensor) -> Tensor:
    """Return where the index of the largest value, or of the smallest, may be another one: two intervals overlap."""
    value, dims = op.args[0], _dims(op)
    if not _is_float(value) or not value.exact.numel() or not dims:
        return torch.ones_like(index, dtype=torch.bool)
    size, bound = -value.exact if "min" in op_name(op.target) else value.exact, dense(value)
    candidates = ~(size + bound < torch.amax(size - bound, dim=dims, keepdim=True))
    return (candidates.sum(dim=dims) > 1).reshape(index.shape)


def _variance(op: OpCall) -> Any:
    """Bound of a variance, and of the mean that comes with it."""
    value, dims, n = op.args[0], _dims(op), _terms(op)
    several = isinstance(op.exact, tuple | list)
    variance = op.exact[0] if several else op.exact
    x, bound = value.exact, dense(value)
    mean = x.mean(dim=dims, keepdim=True)
    order = _order(n, op)
    mean_bound = (bound + order * x.abs()).mean(dim=dims, keepdim=True)
    mean_bound = mean_bound + ORDER_WITNESS * _plain_sum_error(x, dims, op.roundoff).reshape(mean.shape) / n
    spread = (x - mean).abs()
    step = bound + mean_bound + op.roundoff * (x.abs() + mean.abs())
    squares = (2 * spread * step + step * step + order * spread.square()).mean(dim=dims)
    correction = op.kwargs.get("correction", 1)
    factor = n / max(n - float(1 if correction is None else correction), 1.0)
    squares = (squares * factor).reshape(variance.shape) + 4 * op.roundoff * variance.abs()
    if not several:
        return squares
    return [squares, mean_bound.reshape(op.exact[1].shape) + op.roundoff * op.exact[1].abs()]


def _scattered(op: OpCall) -> Any:
    """Bound of sums over indices: each term is added to memory, so each sum is rounded to the dtype of the result."""
    if any(not _is_float(value) for value in op.inexact):
        return _unknown(op)

    def summed(of: Callable[[Value], Tensor]) -> Tensor:
        return op.with_exact(lambda value: of(value) if _is_float(value) else value.exact)

    terms = summed(lambda value: torch.ones_like(value.exact)).abs()
    order = (torch.minimum(terms, ORDER * terms.sqrt()) + 1) * max(op.roundoff, op.stored)
    return order * summed(lambda value: value.exact.abs()).abs() + summed(dense).abs()


def _accumulated(op: OpCall) -> Any:
    """Bound of ops that are linear in each input: matrix products, convolutions."""
    name = op_name(op.target)
    n = _contracted(op, name)
    sizes = op.with_exact(lambda value: value.exact.abs() if _is_float(value) else value.exact)
    bound = tree_map(lambda leaf: leaf * (_order(n, op) + op.roundoff + _factor_error(op)), sizes)
    for varied in op.inexact:
        if not _is_float(varied):
            return _unknown(op)

        def passed(value: Value, varied: Value = varied) -> Any:
            return dense(value) if value is varied else value.exact.abs() if _is_float(value) else value.exact

        bound = tree_map(lambda one, other: one + other, bound, op.with_exact(passed))
    return bound


def _factor_error(op: OpCall) -> float:
    """Return the relative error of a product in a library of a GPU: TF32, and partial sums in a smaller dtype."""
    first = op.values[0]
    if not first.exact.is_cuda:
        return 0.0
    if op.stored:
        return 2 * op.stored
    return (
        2 * TF32
        if first.eager.dtype is torch.float32 and _tf32(convolution="convolution" in op_name(op.target))
        else 0.0
    )


def _tf32(*, convolution: bool) -> bool:
    """Return whether libraries may use TF32; also if torch does not tell, as with a mix of its old and new settings."""
    try:
        return bool(torch.backends.cudnn.allow_tf32 if convolution else torch.backends.cuda.matmul.allow_tf32)
    except RuntimeError:
        return True


def _contracted(op: OpCall, name: str) -> int:
    tensors = [value.exact for value in op.values if isinstance(value.exact, Tensor)]
    if name in ("aten.mm", "aten.bmm"):
        return int(tensors[0].shape[-1])
    if name in ("aten.addmm", "aten.baddbmm", "aten.addmv"):
        return int(tensors[1].shape[-1]) + 1
    if name == "aten.convolution":
        return int(math.prod(tensors[1].shape[1:])) + 1
    if name in ("aten.cumsum",):
        return int(tensors[0].shape[op.args[1]]) if tensors[0].dim() else 1
    return max(1, int(max(tensor.numel() for tensor in tensors)))


def _error_function(op: OpCall) -> Any:
    """Bound of erf: ATen's vectorized erf is a polynomial that is off by up to 1.5e-7, whatever the value is."""
    return _pointwise(op) + ERF_ABSOLUTE


def _powers(op: OpCall) -> Any:
    return _pointwise(op, ulps=2 * FUNCTION_ULPS)


_MOVES = (
    "view", "reshape", "_unsafe_view", "permute", "transpose", "t", "expand", "slice", "select", "unsqueeze", "squeeze",
    "clone", "alias", "detach", "cat", "stack", "as_strided", "split", "split_with_sizes", "unbind", "flip", "roll",
    "constant_pad_nd", "gather", "index", "index_select", "embedding", "_unsafe_index", "repeat", "copy", "diagonal",
    "slice_scatter", "select_scatter", "scatter", "index_put", "_unsafe_index_put", "unfold", "lift_fresh_copy",
    "reflection_pad1d", "reflection_pad2d", "replication_pad2d", "_reshape_alias", "as_strided_scatter",
)  # fmt: skip
"""Ops that only move values."""

_SELECTIONS = (
    "neg", "abs", "relu", "maximum", "minimum", "clamp", "clamp_min", "clamp_max", "where", "lt", "le", "gt", "ge",
    "eq", "ne", "logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or", "bitwise_not", "sign", "floor",
    "ceil", "round", "trunc", "threshold_backward", "fmax", "fmin", "isnan", "isinf",
)  # fmt: skip
"""Pointwise ops that do not round."""

_LINEAR = (
    "mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot", "convolution", "cumsum", "avg_pool2d",
    "_adaptive_avg_pool2d", "upsample_bilinear2d",
)  # fmt: skip
"""Ops that are linear in each input."""

_SCATTERS = ("scatter_add", "index_add", "embedding_dense_backward", "_unsafe_masked_index_put_accumulate")
"""Ops that add terms at indices."""

RULES: dict[str, Callable[[OpCall], Any]] = {
    **{f"aten.{name}": _moved for name in _MOVES},
    **{f"aten.{name}": _selected for name in _SELECTIONS},
    **{f"aten.{name}": _accumulated for name in _LINEAR},
    **{f"aten.{name}": _scattered for name in _SCATTERS},
    "aten.add": _added,
    "aten.sub": _added,
    "aten.mul": _multiplied,
    "aten.div": _divided,
    "aten.reciprocal": _divided,
    "aten.exp": _exponential,
    "aten.exp2": _exponential,
    "aten.sigmoid": _exponential,
    "aten.sqrt": _basic,
    "aten.rsqrt": _inverse_root,
    "aten.pow": _powers,
    "aten.erf": _error_function,
    "aten.sum": _summed,
    "aten.mean": _summed,
    "aten.var_mean": _variance,
    "aten.var": _variance,
    "aten.amax": _largest,
    "aten.amin": _largest,
    "aten.max": _largest,
    "aten.min": _largest,
    "aten.argmax": _largest,
    "aten.argmin": _largest,
    "aten._to_copy": _converted,
    "prims.convert_element_type": _converted,
}  # fmt: skip

CASTS = ("aten._to_copy", "prims.convert_element_type")


def moves_values(target: Any) -> bool:
    """Return whether an op only moves or selects values, so that nothing is rounded."""
    name = op_name(target).removeprefix("aten.").removesuffix("_")
    return name in _MOVES or name in _SELECTIONS


def bound_of(op: OpCall) -> Any:
    """Return the bound of an op's result, of the same structure as the result. Exceptions of torch propagate."""
    name = op_name(op.target)
    # An op that works in place rounds as the one that doesn't.
    name = name.removesuffix("_") if name.startswith("aten.") else name
    if name in ("aten.index_put", "aten._unsafe_index_put") and (len(op.args) > 3 and op.args[3]):
        return _scattered(op)
    rule = RULES.get(name)
    if rule is None and torch.Tag.pointwise in getattr(op.target, "tags", ()):
        rule = _pointwise
    if name == "aten.where" and not op.inexact:
        return None
    return _opaque(op) if rule is None else rule(op)


def _opaque(op: OpCall) -> Any:
    """Bound of an op without a rule: eager's own error, and what small changes of the inputs do."""
    spread: list[Any] = []
    for sign in (1, -1) if op.inexact else ():
        if any(not _is_float(value) for value in op.inexact):
            return _unknown(op)
        signs = torch.Generator().manual_seed(0)

        def changed(value: Value, sign: int = sign, signs: Any = signs) -> Any:
            if not isinstance(value.bound, Tensor):
                return value.exact
            choice = torch.randint(0, 2, value.exact.shape, generator=signs).to(value.exact.device) * 2 - 1
            return value.exact + sign * choice * value.bound

        spread.append(op.with_exact(changed))

    def bound(exact: Any, eager: Any, *others: Any) -> Any:
        if not isinstance(exact, Tensor) or not exact.is_floating_point():
            return torch.ones_like(exact, dtype=torch.bool) if isinstance(exact, Tensor) and others else None
        worst = _largest_finite(widened(eager) - exact)
        for other in others:
            worst += _largest_finite(other - exact)
        return torch.full_like(exact, OPAQUE * worst) + 2 * FUNCTION_ULPS * op.stored * exact.abs()

    return tree_map(bound, op.exact, op.eager, *spread)


def _largest_finite(values: Tensor) -> float:
    """Return the largest absolute value that is finite, 0 if there is none."""
    values = values.abs()
    values = values[torch.isfinite(values)]
    return float(values.max()) if values.numel() else 0.0
