"""What `torch.compile` was given: its name, its kind, and the user's line."""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple

import torch

from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Location

_BACKWARD = re.compile(r"CompiledAutograd(\d+)")
"""Classes of the graphs that compiled autograd hands to the compiler, numbered by torch."""

_OWN_CALLS = ("_call_impl", "_wrapped_call_impl")
"""Methods of a module that `module.compile()` has compiled."""


class Named(NamedTuple):
    """A name and one of the kinds of `RegionCreated`."""

    name: str
    kind: str


def named(given: Any) -> Named:
    """What something that is compiled is called."""
    if isinstance(given, torch.nn.Module):
        return _module(given)
    owner, name = getattr(given, "__self__", None), getattr(given, "__name__", type(given).__name__)
    if isinstance(owner, torch.nn.Module) and name in _OWN_CALLS:
        return Named(type(owner).__name__, "module in place")
    if isinstance(owner, torch.optim.Optimizer):
        return Named(f"{type(owner).__name__}.{name}", "optimizer")
    if owner is not None and not isinstance(owner, type):
        return Named(f"{type(owner).__name__}.{name}", "method")
    return Named(name, "function")


def _module(given: torch.nn.Module) -> Named:
    name = type(given).__name__
    backward = _BACKWARD.fullmatch(name)
    return Named(f"backward {backward[1]}", "compiled autograd") if backward else Named(name, "module")


def asked_at(project: UserFiles) -> Location | None:
    """The user's innermost line on the stack of this thread."""
    frame = sys._getframe(1)
    while frame is not None and not project.owns(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    return project.location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name) if frame else None
