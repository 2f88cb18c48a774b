"""The frame that a call of compiled code enters first, and its locals as Dynamo's guards find them."""

from __future__ import annotations

import inspect
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

import torch

from tcexplore.capture.entry.entry import Call, EntryError


class Entered(NamedTuple):
    """A function that is about to run: its code, its locals by name (closures included)."""

    code: CodeType
    scope: dict[str, Any]


class UnknownEntryError(Exception):
    """Which frame the call enters, or with what, comes out of running; the message says why."""


def entered(compiled: Any, call: Call) -> Entered:
    """What `compiled(*call.args, **call.kwargs)` runs first of the code that Dynamo compiles.

    Raises `EntryError` where the arguments do not fit, `UnknownEntryError` where it cannot be told.
    """
    function, args = _called(compiled, call.args)
    try:
        bound = inspect.signature(function, follow_wrapped=False).bind(*args, **call.kwargs)
    except TypeError as error:
        raise EntryError(f"These inputs do not fit: {error}.", "", "arguments") from None
    bound.apply_defaults()
    return Entered(function.__code__, {**bound.arguments, **_closure(function)})


def _called(compiled: Any, args: tuple[Any, ...]) -> tuple[FunctionType, tuple[Any, ...]]:
    """The function that is compiled, and the arguments that reach it."""
    original = _original(compiled)
    module = getattr(original, "__self__", None)
    outside = ("_wrapped_call_impl", "_call_impl", "__call__")
    if isinstance(module, torch.nn.Module) and getattr(original, "__name__", "") in outside:
        if module._forward_pre_hooks:
            raise UnknownEntryError("a forward pre-hook of the module runs first, and may change what it is given")
        original = module.forward
    if isinstance(original, MethodType):
        return _plain(original.__func__), (original.__self__, *args)
    return _plain(original), args


def _original(compiled: Any) -> Any:
    """What was given to Dynamo: for a module the call that it wraps."""
    if isinstance(compiled, torch.nn.Module):
        in_place = getattr(compiled, "_compiled_call_impl", None)
        compiled = in_place if in_place is not None else getattr(compiled, "dynamo_ctx", None) and compiled.forward
    found = getattr(compiled, "_torchdynamo_orig_callable", None)
    if found is None:
        raise UnknownEntryError("it was not made by torch.compile")
    return found


def _plain(function: Any) -> FunctionType:
    if not isinstance(function, FunctionType):
        raise UnknownEntryError(f"what is called is a {type(function).__name__}, no Python function")
    return function


def _closure(function: FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found
