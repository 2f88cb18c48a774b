"""Structural guards: they hold on to modules, their structure and torch's internals, which nobody edits."""

from __future__ import annotations

import re
from types import BuiltinFunctionType, MethodDescriptorType, ModuleType

import torch

from tcexplore.capture.guards.guard_tree import LeafGuard

_KINDS = frozenset(
    {
        "DEFAULT_DEVICE",
        "DICT_CONTAINS",
        "DICT_VERSION",
        "DIMENSION_DYNAMIC_MARKING_GUARD",
        "LAMBDA_GUARD",
        "NO_HASATTR",
        "NOT_NONE",
        "TORCH_FUNCTION_MODE_STACK",
    }
)
_IDENTITY = frozenset({"ID_MATCH", "TYPE_MATCH", "OBJECT_ALIASING"})
_INTERNALS = re.compile(
    r"__import_|__builtins_dict__|_hooks\b|\._(?:modules|parameters|buffers)(?:\)\)\[\d+\])?$"
    r"|\.__(?:dict|defaults|kwdefaults|mro|closure)__$|\.__defaults__\[\d+\]$"
)
_IMPLIED = frozenset({"TYPE_MATCH", "LENGTH_CHECK"})
"""Nothing new where the value itself is compared."""


def is_structural(leaf: LeafGuard) -> bool:
    """Whether a guard is folded away behind a count. The global state (grad mode, autocast) and conditions on
    shapes are not, although they belong to no object of the user's."""
    if leaf.kind in _KINDS or _INTERNALS.search(leaf.source) or any("__import_" in check for check in leaf.checks):
        return True
    if leaf.kind in _IMPLIED and "EQUALS_MATCH" in leaf.beside:
        return True
    return leaf.kind in _IDENTITY and _is_torchs(leaf)


def _is_torchs(leaf: LeafGuard) -> bool:
    """Whether an identity or a type is torch's, Python's or a module's; the type of a tensor is part of its match."""
    if issubclass(
        leaf.guarded, ModuleType | BuiltinFunctionType | MethodDescriptorType | torch.nn.Module | torch.Tensor
    ):
        return True
    return leaf.in_module or issubclass(leaf.guarded, type(torch.Tensor))
