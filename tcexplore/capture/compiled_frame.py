"""A compiled function: its arguments to `torch.compile`, its cache entries, and the frame that a call enters first."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

import torch
from torch._dynamo import eval_frame

from tcexplore.capture.entry import Call, EntryError

_SHARED = -1
"""torch's number for the cache entries that all functions without `isolate_recompiles` share."""
_INNER = "_torchdynamo_orig_backend"
"""Attribute through which torch's callbacks lead to the backend."""


class CompileSettings(NamedTuple):
    """The arguments of `torch.compile` that decide which entries a call may use, and whether it may add one."""

    dynamic: bool | None
    fullgraph: bool
    recompile_limit: int | None
    """Limit of this function; None for that of torch's configuration."""
    isolation: int
    """Number of the cache of this function, negative for the cache of all functions without `isolate_recompiles`."""
    backend: Any
    """The backend as cache entries store it; None if unknown."""

    def own_entries(self, code: CodeType) -> list[Any]:
        """Return the entries that count towards the limit, of any backend, in the order in which torch tries them."""
        by_region = getattr(eval_frame, "_get_cache_entries_for_region", None)
        if by_region is not None:
            return list(by_region(code, self.isolation))
        return [entry for entry in cache_entries(code) if self._uses_backend(entry)]  # before torch 2.13

    def usable_entries(self, code: CodeType) -> list[Any]:
        """Return the entries that a call may use: an isolated function also uses the shared ones, after its own."""
        entries = self.own_entries(code)
        if self.isolation != _SHARED:
            entries += self._replace(isolation=_SHARED).own_entries(code)
        return [entry for entry in entries if self._uses_backend(entry)]

    def _uses_backend(self, entry: Any) -> bool:
        return self.backend is None or entry.backend is self.backend or bool(entry.backend == self.backend)

    def limits(self) -> AbstractContextManager[object]:
        """Return a context with the limits that torch sets while this function is compiled."""
        if self.recompile_limit is None:
            return nullcontext()
        patched: AbstractContextManager[object] = torch._dynamo.config.patch(recompile_limit=self.recompile_limit)
        return patched


def compile_settings(compiled: Any) -> CompileSettings:
    """Return the settings of a function or module that `torch.compile` returned, from torch's own objects."""
    context = _compile_context(compiled)
    callbacks = list(_callbacks(getattr(context, "callback", None)))
    limits = (getattr(callback, "_recompile_limit", None) for callback in callbacks)
    return CompileSettings(
        dynamic=getattr(context, "_dynamic", None),
        fullgraph=bool(getattr(context, "fullgraph", False)) or any(getattr(c, "_one_graph", False) for c in callbacks),
        recompile_limit=next((limit for limit in limits if limit is not None), None),
        isolation=getattr(context, "_isolate_recompiles_id", _SHARED),
        backend=callbacks[-1] if callbacks else None,
    )


def cache_entries(code: CodeType) -> list[Any]:
    """Return all cache entries of a frame's code."""
    return list(eval_frame._debug_get_cache_entry_list(code))


def compiled_function(compiled: Any) -> Any:
    """Return the function that enters the compiled code: a module is called through one that torch makes for it."""
    if not isinstance(compiled, torch.nn.Module):
        return compiled
    in_place = getattr(compiled, "_compiled_call_impl", None)
    return in_place if in_place is not None else getattr(compiled, "dynamo_ctx", None) and compiled.forward


def _compile_context(compiled: Any) -> Any:
    """Return the context with the arguments of `torch.compile`, which the function closes over; None without one."""
    function = compiled_function(compiled)
    while function is not None:
        for cell in getattr(function, "__closure__", None) or ():
            try:
                if isinstance(cell.cell_contents, eval_frame._TorchDynamoContext):
                    return cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        function = getattr(function, "__wrapped__", None)
    return None


def _callbacks(callback: Any) -> Iterator[Any]:
    """Yield torch's callback, those that it wraps, and last the backend."""
    while callback is not None:
        yield callback
        callback = getattr(callback, _INNER, None)


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
