"""Automatic dynamic shapes: the sizes and numbers of a call that torch would make symbolic in a new graph."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from math import isfinite
from types import CodeType
from typing import Any, NamedTuple, Self

import torch
from torch._dynamo.pgo import FrameStateSizeEntry, InferStride, get_code_state

from tcexplore.capture.recompile_check.frame_binding import BoundFrame
from tcexplore.torch_text.dynamo_names import readable_source

SPECIALIZED = (0, 1)
"""Sizes and strides that torch specializes even in a dynamic dimension."""

_DYNAMIC_MARKS = ("_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_unbacked_indices")


class _Policy(NamedTuple):
    """Which sizes and numbers torch makes dynamic besides marked ones, by `torch.compile`'s argument `dynamic`."""

    changed: bool
    """Those that differ from earlier compiles of the frame (automatic dynamic shapes)."""
    all: bool
    """Every one (`dynamic=True`)."""

    @classmethod
    def current(cls, dynamic: bool | None) -> Self:
        config = torch._dynamo.config
        changed = dynamic is not False and bool(getattr(config, "automatic_dynamic_shapes", False))
        static = getattr(config, "assume_static_by_default", True) if dynamic is None else not dynamic
        return cls(changed, not static)


def predict_dynamic(frame: BoundFrame, dynamic: bool | None) -> tuple[str, ...]:
    """Return the sizes (`x.size()[0]`) and numbers (`lr`) that torch would make dynamic if it compiled the frame now.

    `dynamic` is `torch.compile`'s argument. Inputs that no earlier compile of the frame used are not included.
    """
    policy = _Policy.current(dynamic)
    names: list[str] = []
    for source, state in _frame_state(frame.code).items():
        value = _evaluate(source, frame)
        if isinstance(value, torch.Tensor):
            names += () if _is_static_tensor(value) else _dynamic_sizes(readable_source(source), state, value, policy)
        elif type(value) in (int, float) and not _is_constant(source, value, frame):
            names += _dynamic_number(readable_source(source), state, value, policy)
    return tuple(names)


def _frame_state(code: CodeType) -> dict[str, Any]:
    """Return the sizes and numbers that torch has compiled this frame with, by source."""
    key_of_code = code.co_filename, code.co_firstlineno, code.co_name
    states = (
        state for key, state in get_code_state().items() if (key.filename, key.firstlineno, key.name) == key_of_code
    )
    state = next(states, None)
    return {} if state is None else dict(state.automatic_dynamic)


def _evaluate(source: str, frame: BoundFrame) -> Any:
    """Evaluate a source expression, as torch does to find the guard that failed."""
    try:
        return eval(source, {"L": frame.scope, "G": frame.globals})
    except Exception:  # noqa: BLE001  the source may be missing or of another type in this call, with any error
        return None


def _is_static_tensor(tensor: torch.Tensor) -> bool:
    return type(tensor) is torch.nn.Parameter and getattr(torch._dynamo.config, "force_parameter_static_shapes", True)


def _is_constant(source: str, value: float, frame: BoundFrame) -> bool:
    """Return whether torch treats a number as a constant: an integer that is global or an attribute of a module."""
    if isinstance(value, float):
        return False
    of_module = isinstance(_evaluate(source.rpartition(".")[0], frame), torch.nn.Module)
    return source.startswith("G[") or (
        of_module and not getattr(torch._dynamo.config, "allow_unspec_int_on_nn_module", False)
    )


def _dynamic_sizes(name: str, state: Any, tensor: torch.Tensor, policy: _Policy) -> Iterator[str]:
    merged = copy.copy(state)
    merged |= FrameStateSizeEntry.make_tensor(tuple(tensor.size()), _recorded_strides(tensor))
    for dim, size in enumerate(tensor.size()):
        changed = policy.changed and merged.is_size_dynamic(dim)
        static = dim in getattr(tensor, "_dynamo_static_indices", ())
        marked = any(dim in getattr(tensor, marks, ()) for marks in _DYNAMIC_MARKS)
        if size not in SPECIALIZED and (marked or (not static and (changed or policy.all))):
            yield f"{name}.size()[{dim}]"
    for dim, stride in enumerate(tensor.stride()):
        if policy.changed and merged.is_stride_dynamic(dim) and stride not in SPECIALIZED:
            yield f"{name}.stride()[{dim}]"


def _recorded_strides(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return the strides as torch records them: a stride that follows from another dimension refers to it."""
    strides: list[Any] = [None] * tensor.dim()
    inferred: dict[int, Any] = {}
    for stride, dim in sorted((stride, -dim) for dim, stride in enumerate(tensor.stride())):
        strides[-dim] = inferred.get(stride, stride)
        inferred.setdefault(stride * tensor.size(-dim), InferStride(-dim))
    return tuple(strides)


def _dynamic_number(name: str, state: Any, value: float, policy: _Policy) -> Iterator[str]:
    config = torch._dynamo.config
    if isinstance(value, float):
        specialized = getattr(config, "specialize_float", True) or not isfinite(value)
    else:
        specialized = getattr(config, "specialize_int", True)
    merged = copy.copy(state)
    merged |= FrameStateSizeEntry.make_scalar(value)
    changed = policy.changed and not isinstance(merged.scalar, int | float)
    if not specialized and (changed or policy.all):
        yield name
