"""Replacement of arguments in the user's own calls of `torch.compile`."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any

import torch

from tcexplore.capture.entry.entry import EntryError
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.regions.argument_values import parse_argument
from tcexplore.capture.regions.compile_arguments import COMPILE
from tcexplore.capture.regions.compiled_regions import skip_in_dynamo
from tcexplore.events import Config

FACT = "arguments that replace those of the script"

NOT_OVERRIDDEN = "The script made no call of torch.compile whose arguments could be replaced."
NOT_OVERRIDDEN_HINT = "Leave out the options that are arguments of torch.compile, or compile with torch.compile()."

INDUCTOR = "inductor"
"""The only backend that has modes and options."""

_TORCH = os.path.dirname(str(torch.__file__)) + os.sep
_TCEXPLORE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
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
            hooks.wrap(FACT, COMPILE, self._wrap)

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
