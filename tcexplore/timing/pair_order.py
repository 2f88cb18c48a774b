"""Which pair comes next, and which side of it goes first: at random, but balanced."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain, repeat
from typing import NamedTuple

from tcexplore.timing.timing_verdict import FEWEST_CONTROLS, FEWEST_SLOW_PAIRS


class Turn(NamedTuple):
    """One pair: `control` compares eager with eager; `swapped` runs the second side first."""

    control: bool
    swapped: bool


def turns(seed: int = 0) -> Iterator[Turn]:
    """Turns without end.

    The first eleven hold as many control and measured pairs as a first verdict needs, of the next twenty one in four
    is a control, after that one in ten. Of each four pairs of a kind two are swapped. The same seed gives the same
    turns.
    """
    rng = random.Random(seed)
    swaps = {control: _balanced(rng) for control in (True, False)}
    for controls, measured in chain([(FEWEST_CONTROLS, FEWEST_SLOW_PAIRS), (5, 15)], repeat((1, 9))):
        batch = [True] * controls + [False] * measured
        rng.shuffle(batch)
        for control in batch:
            yield Turn(control, next(swaps[control]))


def _balanced(rng: random.Random) -> Iterator[bool]:
    orders = [True, True, False, False]
    while True:
        rng.shuffle(orders)
        yield from orders
