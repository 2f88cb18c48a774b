"""Automatic dynamic shapes: the sizes and numbers of a call that torch would make symbolic in a new graph."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from math import isfinite
from types import CodeType
from typing import Any

import torch
from torch._dynamo.pgo import FrameStateSizeEntry, InferStride, get_code_state

from tcexplore.capture.recompile_check.frame_binding import BoundFrame
from tcexplore.torch_text.dynamo_names import readable_source

SPECIALIZED = (0, 1)
"""Sizes and strides that torch specializes even in a dynamic dimension."""


def predict_dynamic(frame: BoundFrame, dynamic: bool | None) -> tuple[str, ...]:
    """Return the sizes (`x.size()[0]`) and numbers (`lr`) that torch would make dynamic if it compiled the frame now.

    `dynamic` is `torch.compile`'s argument: shapes become dynamic automatically only if it is None.
    """
    if dynamic is not None or not getattr(torch._dynamo.config, "automatic_dynamic_shapes", False):
        return ()
    names: list[str] = []
    for source, state in _frame_state(frame.code).items():
        value = _evaluate(source, frame.scope)
        if isinstance(value, torch.Tensor):
            names += _dynamic_sizes(readable_source(source), state, value)
        elif type(value) in (int, float) and not _is_static_attribute(source, frame.scope):
            names += _dynamic_number(readable_source(source), state, value)
    return tuple(names)


def _frame_state(code: CodeType) -> dict[str, Any]:
    """Return the sizes and numbers that torch has compiled this frame with, by source."""
    key_of_code = code.co_filename, code.co_firstlineno, code.co_name
    states = (
        state for key, state in get_code_state().items() if (key.filename, key.firstlineno, key.name) == key_of_code
    )
    state = next(states, None)
    return {} if state is None else dict(state.automatic_dynamic)


def _evaluate(source: str, scope: dict[str, Any]) -> Any:
    """Evaluate a source expression, as torch does to find the guard that failed."""
    try:
        return eval(source, {"L": scope})
    except Exception:  # noqa: BLE001  the source may be missing or of another type in this call, with any error
        return None


def _is_static_attribute(source: str, scope: dict[str, Any]) -> bool:
    """Return whether this is a number attribute of a module, which torch treats as a constant by default."""
    of_module = isinstance(_evaluate(source.rpartition(".")[0], scope), torch.nn.Module)
    return of_module and not getattr(torch._dynamo.config, "allow_unspec_int_on_nn_module", False)


def _dynamic_sizes(name: str, state: Any, tensor: torch.Tensor) -> Iterator[str]:
    merged = copy.copy(state)
    merged |= FrameStateSizeEntry.make_tensor(tuple(tensor.size()), _recorded_strides(tensor))
    for dim, size in enumerate(tensor.size()):
        static = dim in getattr(tensor, "_dynamo_static_indices", ())
        if merged.is_size_dynamic(dim) and size not in SPECIALIZED and not static:
            yield f"{name}.size()[{dim}]"
    for dim, stride in enumerate(tensor.stride()):
        if merged.is_stride_dynamic(dim) and stride not in SPECIALIZED:
            yield f"{name}.stride()[{dim}]"


def _recorded_strides(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return the strides as torch records them: a stride that follows from another dimension refers to it."""
    strides: list[Any] = [None] * tensor.dim()
    inferred: dict[int, Any] = {}
    for stride, dim in sorted((stride, -dim) for dim, stride in enumerate(tensor.stride())):
        strides[-dim] = inferred.get(stride, stride)
        inferred.setdefault(stride * tensor.size(-dim), InferStride(-dim))
    return tuple(strides)


def _dynamic_number(name: str, state: Any, value: float) -> Iterator[str]:
    config = torch._dynamo.config
    if isinstance(value, float):
        specialized = getattr(config, "specialize_float", True) or not isfinite(value)
    else:
        specialized = getattr(config, "specialize_int", True)
    merged = copy.copy(state)
    merged |= FrameStateSizeEntry.make_scalar(value)
    if not specialized and not isinstance(merged.scalar, int | float):
        yield name
