"""Values of post-grad nodes in three replays, and how an op is run for each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from tcexplore.numerics.exact_attention import FUSED_ATTENTION, run_attention

LOW = (torch.float16, torch.bfloat16)
FLOATS = (torch.float32, *LOW)


@dataclass(slots=True)
class Value:
    """The value of a node: of a tensor, or of anything else, which is the same in all three replays."""

    eager: Any
    """As computed by eager in the dtype of the run."""
    exact: Any
    """As computed in float64, from the same inputs."""
    single: Any = None
    """As computed by eager in float32, if the dtype is smaller: generated kernels keep their intermediates so."""
    bound: Any = None
    """Bound of the difference from `exact`, in float64; for integers and booleans, where the value is undecided.
    None if the value is exact; infinite where nothing can be said."""

    @classmethod
    def given(cls, value: Any) -> Value:
        """Return the value of an input, which is exact."""
        return cls(value, tree_map(widened, value), tree_map(partial(widened, to=torch.float32), value))


def widened(value: Any, to: torch.dtype = torch.float64) -> Any:
    """Return a tensor of a smaller floating-point dtype in another one, anything else unchanged."""
    if isinstance(value, Tensor) and value.dtype in FLOATS and value.dtype != to:
        return value.to(to)
    if isinstance(value, Tensor) and value.dtype is torch.complex64 and to is torch.float64:
        return value.to(torch.complex128)
    return value


def all_finite(values: Tensor) -> bool:
    """Return whether all values are finite, without a mask of them; large values may be taken for infinite."""
    return math.isfinite(float(values.sum()))


def unit(dtype: torch.dtype) -> float:
    """Return half a unit in the last place, relative to the value."""
    return float(torch.finfo(dtype).eps) / 2


def smallest(dtype: torch.dtype) -> float:
    """Return the absolute error of the smallest values: float16 loses digits there, other dtypes may flush to zero."""
    info = torch.finfo(dtype)
    return float(info.tiny) * (float(info.eps) if dtype is torch.float16 else 1.0)


def run_op(target: Any, args: Any, kwargs: Any) -> Any:
    """Call an op. An op that changes its arguments, also a Triton kernel of the user, gets copies."""
    schema = getattr(target, "_schema", None)
    if schema.is_mutable if schema is not None else "mutation" in op_name(target):
        args, kwargs = tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, (args, kwargs))
    return target(*args, **kwargs)


def run_exactly(target: Any, args: Any, kwargs: Any, dtype: torch.dtype = torch.float64) -> Any:
    """Call an op in float64, or another `dtype`: casts to other dtypes, and tensors created in them, have it too."""

    def wide(leaf: Any) -> Any:
        return dtype if isinstance(leaf, torch.dtype) and leaf in FLOATS else leaf

    args, kwargs = tree_map(wide, (args, kwargs))
    name = op_name(target)
    fused = name in FUSED_ATTENTION
    result = run_attention(name, target, args, kwargs) if fused else run_op(target, args, kwargs)
    return tree_map(partial(widened, to=dtype), result)


def op_name(target: Any) -> str:
    """Return the name of an op without its overload, such as `aten.add`."""
    return str(getattr(target, "overloadpacket", getattr(target, "__name__", target)))
