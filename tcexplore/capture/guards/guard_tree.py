"""The guards that torch really checks: the leaves of its C++ guard tree."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple


class LeafGuard(NamedTuple):
    """One leaf. `source` is empty for what belongs to no object; `checks` are torch's texts, one per expression;
    `guarded` is the type of the object looked at, `beside` the kinds of its other leaves; `in_module` says that it
    was reached through a Python module."""

    kind: str
    source: str
    checks: tuple[str, ...]
    guarded: type
    beside: frozenset[str]
    in_module: bool


def leaf_guards(root: Any) -> Iterator[LeafGuard]:
    """All leaves below the root manager, in the order of the tree; what concerns several objects comes once.

    What torch checks last comes last: conditions on symbolic shapes, as leaves of kind `SHAPE_ENV`, and inputs that
    have to be the same object.
    """
    seen = set()
    for leaf in (*_below(root, "", in_module=False), *_at_the_end(root)):
        key = (leaf.kind, "" if leaf.kind in _RELATIONS else leaf.source, leaf.checks)
        if key not in seen:
            seen.add(key)
            yield leaf


_RELATIONS = frozenset({"NO_TENSOR_ALIASING", "OBJECT_ALIASING", "SYMBOLIC_SHAPE_GUARD", "STORAGE_OVERLAPPING"})
"""These stand at every object that they relate to each other."""

_SAME_OBJECT = " is "


def _at_the_end(root: Any) -> Iterator[LeafGuard]:
    for guard in root.get_epilogue_lambda_guards():
        for check in guard.verbose_code_parts():
            kind = "DUPLICATE_INPUT" if _SAME_OBJECT in check.split("  # ")[0] else "SHAPE_ENV"
            yield LeafGuard(kind, "", (check,), type(None), frozenset(), in_module=False)


def _below(manager: Any, source: str, *, in_module: bool) -> Iterator[LeafGuard]:
    guarded, leaves = manager.get_type_of_guarded_value(), manager.get_leaf_guards()
    kinds = frozenset(type(leaf).__name__ for leaf in leaves)
    for leaf in leaves:
        yield LeafGuard(type(leaf).__name__, source, tuple(leaf.verbose_code_parts()), guarded, kinds, in_module)
    inside = in_module or guarded is ModuleType
    for child in _children(manager):
        yield from _below(child, child.get_source(), in_module=inside)


def _children(manager: Any) -> list[Any]:
    children = list(manager.get_child_managers())
    if hasattr(manager, "get_key_value_managers"):
        pairs = manager.get_key_value_managers()
        children += [found for index in sorted(pairs) for found in pairs[index] if found is not None]
    return children
