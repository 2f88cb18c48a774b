"""Arguments of the user's calls of `torch.compile`."""

from __future__ import annotations

import inspect
import threading
import types
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.regions.compiled_regions import skip_in_dynamo

FACT = "arguments of torch.compile"
COMPILE = "torch:compile"

_NAMED = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
"""Values that are shown by their name."""

LONGEST_VALUE = 120
"""Characters of a value as text."""


class CompileArguments:
    """Records the arguments of calls of `torch.compile`: the current one in each thread, and the finished ones."""

    def __init__(self, hooks: Hooks) -> None:
        """Start to watch `torch.compile`."""
        self._thread = _ThreadState()
        self._finished: dict[int, tuple[weakref.ref[Any], tuple[str, ...]]] = {}
        """The result of a call and its arguments, by the id of the result."""
        hooks.wrap(FACT, COMPILE, self._wrap)

    @property
    def current(self) -> tuple[str, ...]:
        """The arguments of the innermost current call, such as `mode='max-autotune'`."""
        return self._thread.stack[-1] if self._thread.stack else ()

    def of(self, compiled: Any) -> tuple[str, ...]:
        """Return the arguments of the call with this result, or of `compiled.compile()`; nothing if it is unknown."""
        in_place = getattr(compiled, "_compiled_call_impl", None)
        for result in (compiled, in_place):
            reference, given = self._finished.get(id(result), (None, ()))
            if reference is not None and reference() is result:
                return given
        return ()

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        defaults = {name: parameter.default for name, parameter in inspect.signature(original).parameters.items()}

        @wraps(original)
        def compile_and_note(*args: Any, **kwargs: Any) -> Any:
            stack, given = self._thread.stack, describe_arguments(kwargs, defaults)
            stack.append(given)
            try:
                result = original(*args, **kwargs)
            finally:
                stack.pop()
            if given:
                with suppress(TypeError):  # not everything has weak references
                    self._finished[id(result)] = (weakref.ref(result), given)
            return result

        return skip_in_dynamo(compile_and_note)


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.stack: list[tuple[str, ...]] = []


def describe_arguments(arguments: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[str, ...]:
    """Return `name=value` for each argument with another value than its default."""
    return tuple(
        f"{name}={_describe(value)}"
        for name, value in arguments.items()
        if not (type(value) is type(defaults.get(name)) and _is_plain(value) and value == defaults.get(name))
    )


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (str, int, float, bool)


def _describe(value: Any) -> str:
    """Return a value as text, without code of the user's classes."""
    if _is_plain(value):
        text = repr(value)
    elif type(value) is dict:
        text = "{" + ", ".join(f"{_describe(key)}: {_describe(item)}" for key, item in value.items()) + "}"
    elif type(value) in (list, tuple):
        text = "[" + ", ".join(map(_describe, value)) + "]"
    else:
        text = value.__name__ if isinstance(value, _NAMED) else type(value).__name__
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
