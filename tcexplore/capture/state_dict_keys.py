"""The names in a compiled module's state dict, beside the module's own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from tcexplore.events import StateKeys
from tcexplore.events.artifact_events import KEYS_SHOWN


def state_keys(module: torch.nn.Module, compiled: Callable[..., Any]) -> StateKeys | None:
    """Of a module and what `torch.compile` made of it; None where that is no module, or there is no state.

    The module itself is left as it is: one that shares its parameters is compiled in place, and never called.
    """
    if not isinstance(compiled, torch.nn.Module):
        return None
    own, made = list(module.state_dict()), list(compiled.state_dict())
    beside = copy.copy(module)
    beside.compile()
    in_place = list(beside.state_dict())
    if not own:
        return None
    return StateKeys(
        count=len(own), module=tuple(own[:KEYS_SHOWN]), compiled=tuple(made[:KEYS_SHOWN]),
        in_place=tuple(in_place[:KEYS_SHOWN]), prefix=_prefix(own, made),
    )  # fmt: skip


def _prefix(own: list[str], made: list[str]) -> str | None:
    if len(own) != len(made):
        return None
    found = {there.removesuffix(here) for here, there in zip(own, made, strict=True) if there.endswith(here)}
    return found.pop() if len(found) == 1 and all(map(str.endswith, made, own)) else None
