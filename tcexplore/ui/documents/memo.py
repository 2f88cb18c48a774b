"""Results kept by the identity of what they were made from: snapshots grow, but share their parts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

Made = TypeVar("Made")
From = TypeVarTuple("From")


def by_identity(kept: int) -> Callable[[Callable[[*From], Made]], Callable[[*From], Made]]:
    """Remember the newest `kept` results of a function of immutable arguments, compared by identity.

    Comparing the arguments themselves would cost as much as making most results again: they are tuples of
    thousands of records.
    """

    def decorate(make: Callable[[*From], Made]) -> Callable[[*From], Made]:
        known: OrderedDict[tuple[int, ...], tuple[tuple[object, ...], Made]] = OrderedDict()

        def remembered(*given: *From) -> Made:
            key = tuple(map(id, given))
            if key not in known:
                known[key] = (given, make(*given))
            known.move_to_end(key)
            while len(known) > kept:
                known.popitem(last=False)
            return known[key][1]

        return remembered

    return decorate
