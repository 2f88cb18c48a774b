"""Arguments of `torch.compile` from text: further ones, and those that replace arguments in the user's own calls."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import wraps
from types import FrameType
from typing import Any

import torch

from tcexplore.capture.compiled_regions import skip_in_dynamo
from tcexplore.capture.entry import EntryError
from tcexplore.capture.hooks import Hooks
from tcexplore.events import Config
from tcexplore.events.config import INDUCTOR

ARGUMENTS_FACT = "arguments of torch.compile"
COMPILE = "torch:compile"

_NAMED = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
"""Values that are shown by their name."""

LONGEST_VALUE = 120
"""Characters of a value as text."""


class CompileArguments:
    """Records the arguments of calls of `torch.compile`: the current one in each thread, and the finished ones."""

    def __init__(self) -> None:
        self._thread = _ThreadState()
        self._finished: dict[int, tuple[weakref.ref[Any], tuple[str, ...]]] = {}
        """The result of a call and its arguments, by the id of the result."""

    def install(self, hooks: Hooks) -> None:
        """Start to watch `torch.compile`."""
        hooks.wrap(ARGUMENTS_FACT, COMPILE, self._wrap)

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


OVERRIDES_FACT = "arguments that replace those of the script"

NOT_OVERRIDDEN = "The script made no call of torch.compile whose arguments could be replaced."
NOT_OVERRIDDEN_HINT = "Leave out the options that are arguments of torch.compile, or compile with torch.compile()."

_TORCH = os.path.dirname(str(torch.__file__)) + os.sep
_TCEXPLORE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MODULE_COMPILE = os.path.join(_TORCH, "nn", "modules", "module.py")
"""The file of `module.compile()`, which calls `torch.compile` for the user."""


class CompileOverrides:
    """Replaces `Config.override` in each call of `torch.compile`, except for torch's and tcexplore's own calls."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.count = 0
        """The number of calls whose arguments were replaced."""

    def install(self, hooks: Hooks) -> None:
        """Start to replace arguments; do nothing if the configuration replaces none."""
        if self._config.override or self._config.compile_arguments:
            hooks.wrap(OVERRIDES_FACT, COMPILE, self._wrap)

    def use(self, config: Config) -> None:
        """Replace arguments by those of another configuration from now on."""
        self._config = config

    def require_calls(self) -> None:
        """Raise `EntryError` if a script made no call whose arguments could be replaced."""
        if (self._config.override or self._config.compile_arguments) and not self.count:
            raise EntryError(NOT_OVERRIDDEN, NOT_OVERRIDDEN_HINT, "arguments")

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def compile_with_overrides(*args: Any, **kwargs: Any) -> Any:
            if _called_by_user(sys._getframe(1)):
                self.count += 1
                kwargs = replace_arguments(kwargs, self._config)
            return original(*args, **kwargs)

        return skip_in_dynamo(compile_with_overrides)


def replace_arguments(arguments: dict[str, Any], config: Config) -> dict[str, Any]:
    """Return keyword arguments of `torch.compile` with those of `config.override` replaced.

    Another backend than Inductor gets neither a mode nor options; a replaced mode also replaces the options.
    """
    changed = {name: getattr(config, name) for name in config.override if name != "disable"}
    result = {**arguments, **changed}
    if "disable" in config.override:
        result["disable"] = True
    if "backend" in changed and config.backend != INDUCTOR:
        result = {name: value for name, value in result.items() if name not in ("mode", "options")}
    elif "mode" in changed:
        result.pop("options", None)
    return with_further_arguments(result, config)


def with_further_arguments(arguments: dict[str, Any], config: Config, **options: Any) -> dict[str, Any]:
    """Return arguments of `torch.compile` with `config.compile_arguments`. Given options extend those of the mode.

    `options` extend the given ones. Raise `EntryError` for an argument that is invalid or that torch lacks.
    """
    known = list(inspect.signature(torch.compile).parameters)[1:]
    given = dict(parse_argument(text, known) for text in config.compile_arguments)
    if options:
        given["options"] = {**given.get("options", {}), **options}
    if given.get("options") and arguments.get("mode") and arguments.get("backend", INDUCTOR) == INDUCTOR:
        of_mode = torch._inductor.list_mode_options(arguments["mode"], arguments.get("dynamic"))
        given["options"] = {**of_mode, **given["options"]}
    if "options" in given:
        arguments = {name: value for name, value in arguments.items() if name != "mode"}
    return {**arguments, **given}


def _called_by_user(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename == _MODULE_COMPILE:
        frame = frame.f_back
    return frame is not None and not frame.f_code.co_filename.startswith((_TORCH, _TCEXPLORE))


SHAPES = ("dynamic_shapes", "shapes_spec")
"""Names of the argument with the specification of dynamic shapes: since torch 2.15, and in torch 2.13."""

SPECS = "torch.fx.experimental.dynamic_spec"
"""Module with the classes of specifications."""

SHAPES_HINT = (
    "Write a dictionary of argument names, each with its dimensions: \"dynamic_shapes={'x': ['batch', None]}\". A name "
    "is dynamic, None is static; ShapeVar('batch', max=64), TensorSpec and the other classes of " + SPECS + " work too."
)

_OPERATORS = (ast.operator, ast.unaryop, ast.cmpop)
_ALLOWED = (
    ast.Expression, ast.Constant, ast.Dict, ast.List, ast.Tuple, ast.Name, ast.Load, ast.Call, ast.keyword, ast.BinOp,
    ast.UnaryOp, ast.Compare,
)  # fmt: skip
"""Syntax of a specification: no attributes and no subscripts, so that only the classes of `SPECS` can be called."""


def parse_argument(text: str, known: Collection[str]) -> tuple[str, Any]:
    """Return the argument and its value of `NAME=VALUE`; `known` are torch's arguments. Raise `EntryError`.

    A specification of shapes is passed under the name that this torch has for it.
    """
    name, _, value = text.partition("=")
    if name in SHAPES:
        name = next((other for other in SHAPES if other in known), name)
    if name not in known:
        hint = f"Use one of {', '.join(known)}."
        raise EntryError(f"This torch's compile has no argument {name!r}.", hint, "arguments")
    if name in SHAPES:
        return name, _shapes(text, value)
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        if name == "name":  # text without quotes
            return name, value
        message = f"{text}: the value is not a Python literal."
        raise EntryError(message, "Write text in quotes, such as \"backend='eager'\".", "arguments") from None


def _shapes(text: str, value: str) -> Any:
    """Return the specification of dynamic shapes. Raise `EntryError`."""
    try:
        tree = ast.parse(value, mode="eval")
        if any(not isinstance(node, (*_ALLOWED, *_OPERATORS)) for node in ast.walk(tree)):
            raise ValueError("only literals, calls and arithmetic are allowed")
        specs = importlib.import_module(SPECS)
        names = {name: getattr(specs, name) for name in specs.__all__ if hasattr(specs, name)}
        names |= {name: _shared(names[name]) for name in ("ShapeVar", "IntVar")}
        evaluated = eval(compile(tree, "<shapes>", "eval"), {"__builtins__": {}}, names)
        if isinstance(evaluated, dict):
            evaluated = _with_tensors(evaluated, names)
            names["ShapesSpec"](evaluated)  # raises for an invalid specification
        return evaluated
    except Exception as error:  # noqa: BLE001  an invalid specification raises anything
        raise EntryError(f"{text}: {error}", SHAPES_HINT, "arguments") from None


def _shared(kind: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes variables, one for all uses of a name."""
    variables: dict[str, Any] = {}

    def variable(name: str | None = None, **limits: Any) -> Any:
        if name is None:
            return kind(**limits)
        if name not in variables:
            variables[name] = kind(name, **limits)
        return variables[name]

    return variable


def _with_tensors(params: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with lists of dimensions as `TensorSpec` of `ShapeVar`, and other names as `IntVar`."""
    return {
        name: [_spec(names, each) for each in value]
        if name.startswith("*") and isinstance(value, list)
        else _spec(names, value)
        for name, value in params.items()
    }


def _spec(names: dict[str, Any], value: Any) -> Any:
    if isinstance(value, str):
        return names["IntVar"](value)
    if not isinstance(value, list | tuple):
        return value
    return names["TensorSpec"]([names["ShapeVar"](dim) if isinstance(dim, str) else dim for dim in value])
