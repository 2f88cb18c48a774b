"""The steps of a study: which are done, how much time is left, and what a spent budget left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf

TWO_MINUTES_S = 120.0


class BudgetSpentError(Exception):
    """The time that the user gave to the study is spent."""


@dataclass(slots=True)
class _Steps:
    """Steps of one kind, which take about equally long."""

    guess_s: float | None
    """Time that a step takes, before one is done; None if unknown."""
    started: float
    optional: bool = False
    """Whether they are only done as long as they may change an answer: none of them is left out."""
    names: list[str] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    seconds: float = 0.0
    """Time that the finished steps took together."""

    def left_s(self, spent_s: float = 0.0) -> float | None:
        """Return the seconds for the steps that are not done, `spent_s` after one began; None if unknown."""
        rest = len(self.names) - len(self.done)
        each = self.seconds / len(self.done) if self.done else self.guess_s
        return 0.0 if not rest else None if each is None else max(each - spent_s, 0.0) + (rest - 1) * each


@dataclass(slots=True)
class StudyProgress:
    """Counts the steps of a study, by kind: `compile` and `timing` differ in how long a step takes."""

    budget_s: float | None = None
    """Time limit of the whole study, in seconds; None for no limit."""
    clock: Callable[[], float] = time.monotonic
    _start: float | None = None
    _kinds: dict[str, _Steps] = field(default_factory=dict)
    _kind: str = ""
    """The kind of the steps under way."""

    def start(self) -> None:
        """Start the clock of the budget."""
        self._start = self.clock()

    def plan(
        self, names: Iterable[str], kind: str = "", guess_s: float | None = None, *, optional: bool = False
    ) -> None:
        """Add steps that are to be done, or with `optional` may be; `guess_s` is how long each might take."""
        steps = self._kinds.setdefault(kind, _Steps(guess_s, self.clock(), optional))
        steps.names += [name for name in names if name not in steps.names]

    def begin(self, kind: str = "") -> None:
        """Begin with the steps of a kind: their time counts from now."""
        self._kind = kind
        if kind in self._kinds:
            self._kinds[kind].started = self.clock()

    def end(self, kind: str) -> None:
        """Note that no further step of a kind is needed."""
        if (steps := self._kinds.get(kind)) is not None:
            steps.names = [name for name in steps.names if name in steps.done]

    def finish(self, name: str, kind: str = "") -> None:
        """Note that a step is done."""
        steps = self._kinds.get(kind)
        if steps is not None and name in steps.names and name not in steps.done:
            now = self.clock()
            steps.done.add(name)
            steps.seconds, steps.started = steps.seconds + now - steps.started, now

    @property
    def budget_left_s(self) -> float:
        """Return the seconds that are left of the budget."""
        if self.budget_s is None or self._start is None:
            return inf
        return max(0.0, self.budget_s - (self.clock() - self._start))

    @property
    def left_s(self) -> float | None:
        """Return the seconds that the study still takes, from the steps of each kind that are done; None if unknown."""
        now = self.clock()
        parts = [
            steps.left_s(now - steps.started if kind == self._kind else 0.0) for kind, steps in self._kinds.items()
        ]
        return None if None in parts else min(sum(filter(None, parts)), self.budget_left_s)

    @property
    def done(self) -> int | None:
        """Return how many steps are done; None if there are none, or several kinds of them."""
        return len(steps.done) if (steps := self._kinds.get("")) is not None else None

    @property
    def skipped(self) -> tuple[str, ...]:
        """Return the steps that are not done, with their kind: of each name only the first one."""
        first: dict[str, str] = {}
        for kind, steps in self._kinds.items():
            for name in () if steps.optional else steps.names:
                if name not in steps.done:
                    first.setdefault(name, kind)
        return tuple(f"{name} ({kind})" if kind else name for name, kind in first.items())

    def text(self) -> str:
        """Return `compiling: 3 of 12 · about 40 s left`, of the steps of the kind under way; empty without any."""
        steps = self._kinds.get(self._kind)
        if steps is None or not steps.names:
            return ""
        most = "at most " * steps.optional
        counted = f"{self._kind}: " * bool(self._kind) + f"{len(steps.done)} of {most}{len(steps.names)}"
        left = self.left_s
        return counted if not left else f"{counted} · {_about(left)} left"


def _about(seconds: float) -> str:
    return f"about {seconds:.0f} s" if seconds < TWO_MINUTES_S else f"about {seconds / 60:.0f} min"
