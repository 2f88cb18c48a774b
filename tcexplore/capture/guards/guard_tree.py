"""The leaves of torch's C++ guard tree: the guards that torch checks."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

from tcexplore.torch_text.guard_text import RELATIONS


class LeafGuard(NamedTuple):
    """One leaf of the guard tree."""

    kind: str
    source: str
    """The guarded object as a Dynamo source, empty if the guard belongs to no object."""
    checks: tuple[str, ...]
    """torch's text for each expression."""
    guarded: type
    """The type of the guarded object."""
    sibling_kinds: frozenset[str]
    """The kinds of all leaves of the object."""
    in_module: bool
    """Whether the object was reached through a Python module."""


def leaf_guards(root: Any) -> Iterator[LeafGuard]:
    """Yield all leaves below the root manager, in the order of the tree. A relation of several objects is yielded once.

    torch checks conditions on symbolic shapes (here of kind `SHAPE_ENV`) and duplicate inputs last, so they come last.
    """
    seen = set()
    for leaf in (*_leaves_below(root, "", in_module=False), *_epilogue(root)):
        key = (leaf.kind, "" if leaf.kind in RELATIONS else leaf.source, leaf.checks)
        if key not in seen:
            seen.add(key)
            yield leaf


_SAME_OBJECT = " is "


def _epilogue(root: Any) -> Iterator[LeafGuard]:
    for guard in root.get_epilogue_lambda_guards():
        for check in guard.verbose_code_parts():
            kind = "DUPLICATE_INPUT" if _SAME_OBJECT in check.split("  # ")[0] else "SHAPE_ENV"
            yield LeafGuard(kind, "", (check,), type(None), frozenset(), in_module=False)


def _leaves_below(manager: Any, source: str, *, in_module: bool) -> Iterator[LeafGuard]:
    guarded, leaves = manager.get_type_of_guarded_value(), manager.get_leaf_guards()
    kinds = frozenset(type(leaf).__name__ for leaf in leaves)
    for leaf in leaves:
        yield LeafGuard(type(leaf).__name__, source, tuple(leaf.verbose_code_parts()), guarded, kinds, in_module)
    in_module = in_module or guarded is ModuleType
    for child in _children(manager):
        yield from _leaves_below(child, child.get_source(), in_module=in_module)


def _children(manager: Any) -> list[Any]:
    children = list(manager.get_child_managers())
    if hasattr(manager, "get_key_value_managers"):
        pairs = manager.get_key_value_managers()
        children += [child for index in sorted(pairs) for child in pairs[index] if child is not None]
    return children
