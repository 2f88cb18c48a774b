"""The frame that a call of compiled code enters first, and its locals as Dynamo's guards see them."""

from __future__ import annotations

import inspect
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

import torch

from tcexplore.capture.entry.entry import Call, EntryError
from tcexplore.capture.recompile_check.compile_settings import compiled_function

_MODULE_CALLS = ("_wrapped_call_impl", "_call_impl", "__call__")


class BoundFrame(NamedTuple):
    """The code of a function that is about to run, and its locals by name, including closures."""

    code: CodeType
    scope: dict[str, Any]
    globals: dict[str, Any]


class UnknownFrameError(Exception):
    """The frame and its locals are unknown until the call runs. The message gives the reason."""


def bind_frame(compiled: Any, call: Call) -> BoundFrame:
    """Return the frame that Dynamo would see first for `compiled(*call.args, **call.kwargs)`.

    Raises `EntryError` if the arguments do not fit, and `UnknownFrameError` if the frame cannot be known.
    """
    function, args = _resolve_function(compiled, call.args)
    try:
        bound = inspect.signature(function, follow_wrapped=False).bind(*args, **call.kwargs)
    except TypeError as error:
        raise EntryError(f"These inputs do not fit: {error}.", "", "arguments") from None
    bound.apply_defaults()
    return BoundFrame(function.__code__, {**bound.arguments, **_closure(function)}, function.__globals__)


def _resolve_function(compiled: Any, args: tuple[Any, ...]) -> tuple[FunctionType, tuple[Any, ...]]:
    """Return the compiled function and the arguments that reach it."""
    original = original_callable(compiled)
    module = getattr(original, "__self__", None)
    if isinstance(module, torch.nn.Module) and getattr(original, "__name__", "") in _MODULE_CALLS:
        if module._forward_pre_hooks:
            raise UnknownFrameError("a forward pre-hook of the module runs first and may change the inputs")
        original = module.forward
    if isinstance(original, MethodType):
        return _require_function(original.__func__), (original.__self__, *args)
    return _require_function(original), args


def original_callable(compiled: Any) -> Any:
    """Return the callable that Dynamo received. For a module this is the call that Dynamo wraps."""
    original = getattr(compiled_function(compiled), "_torchdynamo_orig_callable", None)
    if original is None:
        raise UnknownFrameError("it was not made by torch.compile")
    return original


def _require_function(function: Any) -> FunctionType:
    if not isinstance(function, FunctionType):
        raise UnknownFrameError(f"the callee is a {type(function).__name__}, not a Python function")
    return function


def _closure(function: FunctionType) -> dict[str, Any]:
    contents = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            contents[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return contents
