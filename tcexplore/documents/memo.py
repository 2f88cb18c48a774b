"""Results kept by the identity of what they were made from: snapshots grow, but share their parts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, TypeVarTuple

Made = TypeVar("Made")
From = TypeVarTuple("From")

_SMALL = (int, str, frozenset)
"""Compared by value."""


def by_identity(kept: int) -> Callable[[Callable[[*From], Made]], Callable[[*From], Made]]:
    """Remember the newest `kept` results of a function of immutable arguments, records compared by identity.

    Comparing the records themselves would cost as much as making most results again: they are thousands.
    """

    def decorate(make: Callable[[*From], Made]) -> Callable[[*From], Made]:
        known: OrderedDict[tuple[object, ...], tuple[tuple[object, ...], Made]] = OrderedDict()

        def remembered(*given: *From) -> Made:
            key = tuple(value if isinstance(value, _SMALL) else id(value) for value in given)
            cached = known.get(key)
            if cached is None:
                cached = known[key] = (given, make(*given))
            with suppress(KeyError):  # another thread may have let it, or the oldest, go
                known.move_to_end(key)
                while len(known) > kept:
                    known.popitem(last=False)
            return cached[1]

        return remembered

    return decorate
