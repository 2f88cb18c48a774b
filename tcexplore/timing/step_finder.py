"""Where a step of a script begins, from the calls of its regions and the updates of its optimizers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple, Protocol

from tcexplore.events.timing_events import StepBorder

RECURRING = 2
"""Updates after which an optimizer is known to belong to a loop."""

CALLS_OF_A_LOOP = 4
"""Calls of a kind after which they are steps, if no optimizer works."""

USUAL_SHARE = 0.8
"""Share of the steps that must be alike for others to be left out."""

LEAST_ROUNDS = 3
"""Equal distances, in steps, between calls of a kind before that kind begins the steps."""

LONGEST_STEP = 256
"""Calls of regions in one step; an optimizer that works more seldom does not end steps."""


class CallKind(NamedTuple):
    """What distinguishes the calls of regions in a loop: training calls from those that evaluate."""

    region: int
    grad: bool
    """Whether gradients are on."""


class Updates(Protocol):
    """Tells which optimizers changed their parameters."""

    def read(self) -> tuple[int, ...]: ...

    def name(self, number: int) -> str: ...


class StepFinder:
    """Finds the calls that begin a step.

    Where optimizers work, a step begins with the first call after the most seldom of them, so it holds all batches
    whose gradients add up, and all networks of a GAN. Otherwise it begins with each call of the region that is called
    most often.
    """

    def __init__(self, updates: Updates, *, calls_are_steps: bool = True) -> None:
        """`calls_are_steps` is False if optimizers are known to work."""
        self._calls_are_steps = calls_are_steps
        self.border: StepBorder | None = None
        """None until steps are found."""
        self.name = ""
        """Name of the optimizer; empty for another border."""
        self.kind: CallKind | None = None
        """The calls that begin steps, if no optimizer does."""
        self._updates = updates
        self._optimizer: int | None = None
        self._counts: Counter[int] = Counter()
        """Updates of each optimizer."""
        self._last: dict[int, int] = {}
        """The call after the last update of each optimizer, counted from 1."""
        self._kinds: Counter[CallKind] = Counter()
        self._calls = 0

    def observe(self, kind: CallKind) -> bool:
        """Note a call outside all other regions; return whether it begins a step."""
        self._calls += 1
        self._kinds[kind] += 1
        updated = self._updates.read()
        for number in updated:
            if self._calls - self._last.get(number, self._calls) > LONGEST_STEP:
                self._counts[number] = 0
            self._counts[number] += 1
            self._last[number] = self._calls
            if self._counts[number] == RECURRING:
                self._choose_optimizer()
        if self._optimizer is not None:
            return self._optimizer in updated
        if self._calls_are_steps and self.border is None and not self._counts and self._kinds[kind] >= CALLS_OF_A_LOOP:
            self.border, self.kind = "region", kind
        return self.border == "region" and kind == self.kind

    def choose_rarer_kind(self, steps: Iterable[Iterable[CallKind]]) -> bool:
        """Begin steps with a kind of call that comes once every few steps, if there is one. Return whether there is.

        `steps` are the kinds of calls in the newest steps; they are read only where calls begin the steps. A round of
        speculative decoding has some calls of the draft and one of the target: a step from one call of the draft to the
        next would leave the target out.
        """
        if self.border != "region":
            return False
        at: dict[CallKind, list[int]] = {}
        number = -1
        for number, kinds in enumerate(steps):
            for kind in kinds:
                at.setdefault(kind, []).append(number)
        for kind, numbers in at.items():
            distances = Counter(later - earlier for earlier, later in pairwise(numbers))
            (distance, times), *_ = distances.most_common(1) or [(0, 0)]
            alike = times >= LEAST_ROUNDS and times >= USUAL_SHARE * (len(numbers) - 1)
            if distance > 1 and alike and times * distance >= (number + 1) / 2:
                self.kind = kind
                return True
        return False

    def _choose_optimizer(self) -> None:
        """Choose the optimizer that works most seldom."""
        recurring = {number: count for number, count in self._counts.items() if count >= RECURRING}
        self._optimizer = min(recurring, key=lambda number: (recurring[number], number))
        self.border, self.name, self.kind = "optimizer", self._updates.name(self._optimizer), None
