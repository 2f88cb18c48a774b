"""State dict keys of a compiled module, compared with those of the original module."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from tcexplore.events import StateKeys
from tcexplore.events.result_events import STATE_KEYS_SHOWN


def state_keys(module: torch.nn.Module, compiled: Callable[..., Any]) -> StateKeys | None:
    """Compare the keys of a module and of its compiled form; None if the latter is no module or has no state.

    The module is not modified: a shallow copy that shares its parameters is compiled in place and never called.
    """
    if not isinstance(compiled, torch.nn.Module):
        return None
    module_keys, compiled_keys = list(module.state_dict()), list(compiled.state_dict())
    if not module_keys:
        return None
    shallow_copy = copy.copy(module)
    shallow_copy.compile()
    in_place = list(shallow_copy.state_dict())
    return StateKeys(
        count=len(module_keys), module=tuple(module_keys[:STATE_KEYS_SHOWN]),
        compiled=tuple(compiled_keys[:STATE_KEYS_SHOWN]),
        in_place=tuple(in_place[:STATE_KEYS_SHOWN]), prefix=_prefix(module_keys, compiled_keys),
    )  # fmt: skip


def _prefix(module_keys: list[str], compiled_keys: list[str]) -> str | None:
    """Return the prefix that turns every key of the module into the compiled one's; None if there is no such prefix."""
    if len(module_keys) != len(compiled_keys):
        return None
    pairs = list(zip(module_keys, compiled_keys, strict=True))
    prefixes = {compiled.removesuffix(key) for key, compiled in pairs if compiled.endswith(key)}
    return prefixes.pop() if len(prefixes) == 1 and all(compiled.endswith(key) for key, compiled in pairs) else None
