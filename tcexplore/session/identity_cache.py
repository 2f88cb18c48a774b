"""Results that are kept for the immutable records of a run, which are known by identity."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, TypeVarTuple

Made = TypeVar("Made")
From = TypeVarTuple("From")

_SMALL = (int, str, frozenset)
"""Types compared by value."""


def by_identity(size: int) -> Callable[[Callable[[*From], Made]], Callable[[*From], Made]]:
    """Cache the newest `size` results of a function of immutable arguments, records compared by identity.

    Comparing thousands of records by value would cost as much as most results.
    """

    def decorate(make: Callable[[*From], Made]) -> Callable[[*From], Made]:
        known: OrderedDict[tuple[object, ...], tuple[tuple[object, ...], Made]] = OrderedDict()

        def remembered(*given: *From) -> Made:
            key = tuple(value if isinstance(value, _SMALL) else id(value) for value in given)
            cached = known.get(key)
            if cached is None:
                cached = known[key] = (given, make(*given))
            with suppress(KeyError):  # another thread may have removed it, or the oldest
                known.move_to_end(key)
                while len(known) > size:
                    known.popitem(last=False)
            return cached[1]

        return remembered

    return decorate
