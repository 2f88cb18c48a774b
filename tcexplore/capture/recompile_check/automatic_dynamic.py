"""What automatic dynamic shapes would make of a call: which sizes and numbers would be symbols in the new graph."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from types import CodeType
from typing import Any

import torch
from torch._dynamo.pgo import FrameStateSizeEntry, InferStride, get_code_state

from tcexplore.capture.fx.source_names import readable_source
from tcexplore.capture.recompile_check.frame_binding import Entered

SPECIALIZED = (0, 1)
"""Sizes and strides that get code of their own, also in a dynamic dimension."""


def would_be_dynamic(frame: Entered, dynamic: bool | None) -> tuple[str, ...]:
    """The sizes (`x.size()[0]`) and numbers (`lr`) that torch would make dynamic if it compiled the frame now.

    `dynamic` is `torch.compile`'s: automatic only where that is None.
    """
    if dynamic is not None or not getattr(torch._dynamo.config, "automatic_dynamic_shapes", False):
        return ()
    found: list[str] = []
    for name, seen in _seen(frame.code).items():
        value = _value(name, frame.scope)
        if isinstance(value, torch.Tensor):
            found += _sizes(readable_source(name), seen, value)
        elif type(value) in (int, float) and not (_of_module(name, frame.scope) and _attributes_are_static()):
            found += _number(readable_source(name), seen, value)
    return tuple(found)


def _seen(code: CodeType) -> dict[str, Any]:
    """What torch remembers of the sizes that this frame was compiled with, by source."""
    known = get_code_state()
    wanted = code.co_filename, code.co_firstlineno, code.co_name
    states = (state for key, state in known.items() if (key.filename, key.firstlineno, key.name) == wanted)
    state = next(states, None)
    return {} if state is None else dict(state.automatic_dynamic)


def _value(name: str, scope: dict[str, Any]) -> Any:
    """torch evaluates these expressions, too, when it looks for a guard that failed."""
    try:
        return eval(name, {"L": scope})
    except Exception:  # of another kind in this call, or not there
        return None


def _of_module(name: str, scope: dict[str, Any]) -> bool:
    return isinstance(_value(name.rpartition(".")[0], scope), torch.nn.Module)


def _attributes_are_static() -> bool:
    """torch takes the numbers that a module holds for constants, unless it is told otherwise."""
    return not getattr(torch._dynamo.config, "allow_unspec_int_on_nn_module", False)


def _sizes(name: str, seen: Any, tensor: torch.Tensor) -> Iterator[str]:
    strides = _strides(tensor)
    merged = copy.copy(seen)
    merged |= FrameStateSizeEntry.make_tensor(tuple(tensor.size()), strides)
    for dim, size in enumerate(tensor.size()):
        static = dim in getattr(tensor, "_dynamo_static_indices", ())
        if merged.is_size_dynamic(dim) and size not in SPECIALIZED and not static:
            yield f"{name}.size()[{dim}]"
    for dim, stride in enumerate(tensor.stride()):
        if merged.is_stride_dynamic(dim) and stride not in SPECIALIZED:
            yield f"{name}.stride()[{dim}]"


def _strides(tensor: torch.Tensor) -> tuple[Any, ...]:
    """The strides as torch remembers them: those that follow from another dimension's size say which."""
    strides: list[Any] = [None] * tensor.dim()
    follows: dict[int, Any] = {}
    for stride, dim in sorted((stride, -dim) for dim, stride in enumerate(tensor.stride())):
        strides[-dim] = follows.get(stride, stride)
        follows.setdefault(stride * tensor.size(-dim), InferStride(-dim))
    return tuple(strides)


def _number(name: str, seen: Any, value: float) -> Iterator[str]:
    config = torch._dynamo.config
    if isinstance(value, float):
        fixed = getattr(config, "specialize_float", True) or value != value or value in (float("inf"), -float("inf"))
    else:
        fixed = getattr(config, "specialize_int", True)
    merged = copy.copy(seen)
    merged |= FrameStateSizeEntry.make_scalar(value)
    if not fixed and not isinstance(merged.scalar, int | float):
        yield name
